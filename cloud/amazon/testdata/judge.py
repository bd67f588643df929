"""Holds requests to a service of AWS, and answers of a fake of it, to the vendor's own model of the service, which botocore has.

    judge.py SERVICE GOLDEN

GOLDEN has requests: a line that ends in the path or the name of an operation, and a JSON object. Prints a line for all that the model does not
have: unknown members, missing ones, wrong types, values that no enum has, that no pattern matches, or that are too long or too large.
"""

import json
import re
import sys

import botocore.session
from botocore.validate import ParamValidator

scalars = {"string": str, "integer": int, "long": int, "boolean": bool, "float": (int, float), "double": (int, float), "timestamp": (int, float)}


def model_of(service):
    return botocore.session.get_session().get_service_model(service)


def judge(what, shape, value):
    """Prints how a value differs from its shape."""
    if shape.type_name == "structure" and isinstance(value, dict):
        for name, v in value.items():
            if name not in shape.members:
                print(f"{what}: {shape.name} has no {name}")
            else:
                judge(f"{what}.{name}", shape.members[name], v)
        for name in shape.required_members:
            if name not in value:
                print(f"{what}: {shape.name} needs {name}")
    elif shape.type_name == "list" and isinstance(value, list):
        for i, v in enumerate(value):
            judge(f"{what}[{i}]", shape.member, v)
        judge_size(what, shape, len(value))
    elif shape.type_name == "map" and isinstance(value, dict):
        for name, v in value.items():
            judge(f"{what}[{name}]", shape.key, name)
            judge(f"{what}[{name}]", shape.value, v)
        judge_size(what, shape, len(value))
    elif not isinstance(value, scalars.get(shape.type_name, ())):
        print(f"{what}: {value!r} is no {shape.type_name}")
    elif getattr(shape, "enum", None) and value not in shape.enum:
        print(f"{what}: {value!r} is none of {shape.enum}")
    elif isinstance(value, str):
        judge_size(what, shape, len(value))
        pattern = shape.metadata.get("pattern")
        if pattern and not re.fullmatch(pattern.replace("\\p{L}", "\\w").replace("\\p{Z}", "\\s").replace("\\p{N}", "\\d"), value):
            print(f"{what}: {value!r} is not of the form {pattern}")
    elif isinstance(value, int) and not isinstance(value, bool):
        judge_size(what, shape, value)


def judge_size(what, shape, size):
    if size < shape.metadata.get("min", size) or size > shape.metadata.get("max", size):
        print(f"{what}: {size} is not between {shape.metadata.get('min')} and {shape.metadata.get('max')}")


def judge_requests(service, golden):
    """Judges the requests of a file, and returns how many there are."""
    model = model_of(service)
    operations = {}
    for name in model.operation_names:
        operation = model.operation_model(name)
        operations[name] = operations[operation.http["requestUri"].lower()] = operation
    count, decoder, text = 0, json.JSONDecoder(), open(golden).read()
    while text.strip():
        line, text = text.split("\n", 1)
        request, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        operation = operations[line.split()[-1]]
        judge(operation.name, operation.input_shape, request)
        report = ParamValidator().validate(request, operation.input_shape)
        if report.has_errors():
            print(operation.name, report.generate_report())
        count += 1
    return count


def judge_answers(client):
    """Judges each answer that a client of botocore's gets from now on; the list that it returns has an entry for each."""
    seen = []

    def judge_answer(response_dict, operation_model, **_):
        seen.append(operation_model.name)
        if response_dict["status_code"] < 300 and operation_model.output_shape is not None:
            judge("answer to " + operation_model.name, operation_model.output_shape, json.loads(response_dict["body"]))

    client.meta.events.register("before-parse." + client.meta.service_model.service_id.hyphenize() + ".*", judge_answer)
    return seen


if __name__ == "__main__":
    print(judge_requests(*sys.argv[1:]), "judged", file=sys.stderr)
