# Leaves a picture and a table. Fetch them with:
#   coto run --artifacts out examples/plot.py
import csv
import math

points = [(x, math.sin(x / 10)) for x in range(0, 101)]

with open("output/sine.csv", "w", newline="") as file:
    csv.writer(file).writerows([("x", "y"), *points])

line = " ".join(f"{20 + x * 5.6:.1f},{100 - y * 80:.1f}" for x, y in points)
with open("output/sine.svg", "w") as file:
    file.write('<svg xmlns="http://www.w3.org/2000/svg" width="600" height="200">'
               f'<polyline points="{line}" fill="none" stroke="black"/></svg>\n')

print(f"{len(points)} points")
