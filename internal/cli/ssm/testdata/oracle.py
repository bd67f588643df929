"""Reads command lines as JSON lists, one a line, and answers each as
simple-sagemaker's own parser does. Its imports of AWS's SDKs are stood in for:
only the parser runs. A path is there unless its name holds "missing"."""
import argparse
import contextlib
import io
import json
import sys
import types


class Anything(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


for name in ("sagemaker", "sagemaker.inputs", "sagemaker.processing", "sagemaker.debugger", "sagemaker.pytorch",
             "sagemaker.pytorch.estimator", "sagemaker.tensorflow", "sagemaker.tensorflow.estimator", "sagemaker.image_uris",
             "boto3", "botocore", "botocore.config", "botocore.exceptions", "docker"):
    sys.modules[name] = Anything(name)

from simple_sagemaker import cli  # noqa: E402


class Path:
    exists = staticmethod(lambda p: "missing" not in p)


cli.os = types.SimpleNamespace(path=Path)


def answer(args):
    sys.argv = ["ssm"] + args
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            got, hps = cli.parseArgs()
    except SystemExit as e:
        return {"help": True} if e.code == 0 else {"refused": "exit %s" % e.code}
    except Exception as e:
        return {"refused": type(e).__name__}
    options = {k: v for k, v in vars(got).items() if k != "func"}
    if not hasattr(got, "func"):
        return {"refused": "no verb"}
    words = hps.pop("external_hps")
    return {"options": options, "hyperparameters": hps, "words": words}


def flags():
    """What the tool's parser knows, verb by verb."""
    parsers = {}
    add = argparse._SubParsersAction.add_parser

    def keep(self, name, **kwargs):
        parsers[name] = add(self, name, **kwargs)
        return parsers[name]

    argparse._SubParsersAction.add_parser = keep
    answer(["run"])
    argparse._SubParsersAction.add_parser = add
    return {verb: sorted(
        ({"names": a.option_strings, "dest": a.dest, "nargs": a.nargs, "required": a.required} for a in p._actions),
        key=lambda a: a["names"]) for verb, p in parsers.items()}


if sys.argv[1:] == ["flags"]:
    print(json.dumps(flags()))
else:
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
