"""The job as a script: prints the sum of two arguments in JSON."""
import json
import sys

args = json.loads(sys.argv[1])
print(args["a"] + args["b"])
