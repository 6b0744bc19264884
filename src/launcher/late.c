/* An interpreter that comes when it is wanted.
 *
 * Sandboxes of the pool have theirs. One that is made while somebody waits for it, to keep
 * it, is handed over without: bringing an interpreter takes as long as all the rest, it is a megabyte
 * that may never be used, and the next one waits meanwhile. Its init asks for it, on the
 * channel to the interpreter, when the first program comes that is for it, and starts nothing until it is
 * there. If the first program is another one, init closes the channel: an interpreter never comes
 * to where foreign code has run. Whatever the front says, only init can ask.
 */
#include "launcher/launcher.h"

#include "base/fd.h"
#include "template/talk.h"

#include <errno.h>
#include <sys/socket.h>

void launcher_await_want(struct launcher *l, struct box *box)
{
    box->is_awaited = box->sandbox->parked_fd >= 0 &&
                      launcher_watch(l, box->sandbox->parked_fd, &box->late) == 0;
    if (!box->is_awaited)
        coto_own_close(&box->sandbox->parked_fd);
}

static void stop_waiting(struct launcher *l, struct box *box)
{
    launcher_unwatch(l, box->sandbox->parked_fd);
    box->is_awaited = false;
}

void launcher_wanted(struct launcher *l, struct box *box)
{
    char what;
    ssize_t n = recv(box->sandbox->parked_fd, &what, 1, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    stop_waiting(l, box);
    if (n == 1 && what == COTO_PARKED_WANTED)
        launcher_park(l, box);
    else
        coto_own_close(&box->sandbox->parked_fd);
}

void launcher_forget_want(struct launcher *l, struct box *box)
{
    if (box->is_awaited)
        stop_waiting(l, box);
    else if (box->plan.parked_late)
        launcher_unpark(l, box);
}
