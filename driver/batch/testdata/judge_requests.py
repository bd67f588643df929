"""Holds requests and a fake of AWS Batch to the vendor's own model of the service, which botocore has.

    judge_requests.py GOLDEN ENDPOINT REGION

GOLDEN has requests, each a line with its path and a JSON object. The fake at ENDPOINT is asked for what drover asks for. Prints a line for all
that the model does not have: unknown members, missing ones, wrong types, values that no enum has.
"""

import json
import sys

import boto3
import botocore.session
from botocore.validate import ParamValidator

golden, endpoint, region = sys.argv[1:]
model = botocore.session.get_session().get_service_model("batch")
operations = {model.operation_model(n).http["requestUri"]: model.operation_model(n) for n in model.operation_names}
scalars = {"string": str, "integer": int, "long": int, "boolean": bool, "float": (int, float), "double": (int, float), "timestamp": (int, float)}


def judge(what, shape, value):
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
    elif shape.type_name == "map" and isinstance(value, dict):
        for name, v in value.items():
            judge(f"{what}[{name}]", shape.value, v)
    elif not isinstance(value, scalars.get(shape.type_name, ())):
        print(f"{what}: {value!r} is no {shape.type_name}")
    elif getattr(shape, "enum", None) and value not in shape.enum:
        print(f"{what}: {value!r} is none of {shape.enum}")


count, decoder, text = 0, json.JSONDecoder(), open(golden).read()
while text.strip():
    line, text = text.split("\n", 1)
    path = line.split()[1]
    request, end = decoder.raw_decode(text)
    text = text[end:].lstrip()
    operation = next(o for uri, o in operations.items() if uri.lower() == path)
    judge(operation.name, operation.input_shape, request)
    report = ParamValidator().validate(request, operation.input_shape)
    if report.has_errors():
        print(operation.name, report.generate_report())
    count += 1

client = boto3.client("batch", endpoint_url=endpoint, region_name=region, aws_access_key_id="test", aws_secret_access_key="testtest")


def judge_answer(response_dict, operation_model, **_):
    global count
    count += 1
    judge("answer to " + operation_model.name, operation_model.output_shape, json.loads(response_dict["body"]))


client.meta.events.register("before-parse.batch.*", judge_answer)
queue = client.describe_job_queues()["jobQueues"][0]["jobQueueArn"]
client.describe_compute_environments()
definition = client.register_job_definition(
    jobDefinitionName="judged", type="container", containerProperties={"image": "busybox", "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "512"}]},
    retryStrategy={"attempts": 1})["jobDefinitionArn"]
client.describe_job_definitions(status="ACTIVE")
job = client.submit_job(jobName="judged", jobQueue=queue, jobDefinition=definition, arrayProperties={"size": 2}, timeout={"attemptDurationSeconds": 60})["jobId"]
client.list_jobs(jobQueue=queue, filters=[{"name": "JOB_NAME", "values": ["judged*"]}])
client.describe_jobs(jobs=[job, job + ":0"])
client.get_job_queue_snapshot(jobQueue=queue)
client.terminate_job(jobId=job, reason="judged")
client.describe_jobs(jobs=[job + ":0"])
client.deregister_job_definition(jobDefinition=definition)
print(f"{count} judged", file=sys.stderr)
