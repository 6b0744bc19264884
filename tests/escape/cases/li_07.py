"""LI-07: a limit that is not a number must not become no limit."""
from escape.harness import escaped
from escape.lib_files import refusal

TITLE = 'values of limits'
TRIED = ('9 limits by 20 odd values (-1, 0, 2^63, 2^64, 1e9, NaN, inf, spaces, hexadecimal, two units, '
         'empty), by option, by environment and by policy file')
WALLS = ['memory', 'pids', 'timeout', 'disk', 'nofile']
LIMITS = ['--timeout', '--cpu-time', '--memory', '--cpus', '--pids', '--disk', '--tmp-size', '--inodes', '--nofile']
ODD = ['-1', '0', '9223372036854775808', '18446744073709551616', '18446744073709551615', '1e9', 'NaN', 'inf', ' 5', '5 ',
       '0x10', '5kk', '', '+5', '1,5', '5;', '٣', '--', '5\n', '1_000']
FILES = ['{"memory": -1}', '{"memory": "1e9"}', '{"memory": 1e400}', '{"pids": 0}', '{"pids": 9.5}', '{"timeout": true}',
         '{"timeout": null}', '{"memory": "5 m"}', '{"pids": "٣"}', '{"memory": [5]}']


def attack(box):
    count = 0
    for flag in LIMITS:
        for value in ODD:
            refusal(box.sh('true', flags=[f'{flag}={value}'] if value in ('', '--') else [flag, value],
                           may_refuse=True), 64, 65)
            count += 1
    for text in FILES:
        path = box.folder / 'policy.json'
        path.write_text(text)
        refusal(box.sh('true', flags=['--policy', path], may_refuse=True), 64, 65)
    for name, value in (('SANDBOX_TIMEOUT_SEC', 'NaN'), ('SANDBOX_TIMEOUT_SEC', '-1'), ('SANDBOX_MAX_OUTPUT_KB', '1e9')):
        refusal(box.sh('true', env={name: value}, may_refuse=True), 64, 65)
    return f'{count} options, {len(FILES)} files and 3 variables refused'


def control(box):
    """The same options with plain values reach the kernel exactly."""
    done = box.sh('ulimit -n', flags=['--nofile', '77', '--memory', '64m', '--pids', '9', '--timeout', '5s'])
    if done.text != '77':
        escaped('CRASH', f'--nofile 77 became {done.text}')
    assert done.json['walls']['timeout']['value'] == '5000ms', done.json['walls']['timeout']
    return 'plain values are in force: nofile 77, timeout 5000ms'
