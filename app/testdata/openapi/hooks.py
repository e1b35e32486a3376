"""Keeps the run alive: who rotates, narrows or removes the key that it uses is
refused ever after, and then nothing is found."""

import os

import schemathesis


@schemathesis.hook
def before_call(context, case, kwargs):
    if (case.path_parameters or {}).get("id") == os.environ["OWN_KEY"]:
        case.path_parameters["id"] = os.environ["OTHER_KEY"]
