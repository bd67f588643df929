"""Records what simple-sagemaker asks SageMaker for, and SageMaker's own SDK, without SageMaker.

    record.py LINES REQUESTS

LINES is a JSON list of command lines, without the program's name; one that begins with "estimator" is a PyTorch estimator of the SDK with
these arguments. The tool runs unchanged, each line in this process and in a folder of its own; every call of a service is answered here. Writes a
JSON list to REQUESTS: for each line its words, and the request for its job, in which JOB stands for the job's name.
"""

import datetime
import io
import json
import os
import re
import sys
import tempfile

region, account = "eu-west-1", "123456789012"
os.environ.update(AWS_REGION=region, AWS_DEFAULT_REGION=region, AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_EC2_METADATA_DISABLED="true")
settings = tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False)
settings.write('SchemaVersion: "1.0"\nSageMaker:\n  PythonSDK:\n    Modules:\n      TelemetryOptOut: true\n')
settings.close()
os.environ["SAGEMAKER_USER_CONFIG_OVERRIDE"] = settings.name

import botocore.client
import botocore.exceptions
import boto3.s3.transfer
import sagemaker.session
from sagemaker.pytorch import PyTorch
from simple_sagemaker import cli

now = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)
made = []


def answer(self, operation, params):
    """Answers one call as SageMaker would whose jobs complete at once."""
    if operation in ("CreateTrainingJob", "CreateProcessingJob"):
        made.append((operation, params))
        return {operation[6:] + "Arn": "arn:aws:sagemaker:" + region + ":" + account + ":job/x"}
    if operation == "DescribeTrainingJob":
        request = made[-1][1]
        return dict(request, TrainingJobStatus="Completed", SecondaryStatus="Completed", CreationTime=now, TrainingStartTime=now, TrainingEndTime=now, LastModifiedTime=now,
                    ModelArtifacts={"S3ModelArtifacts": request["OutputDataConfig"]["S3OutputPath"] + "/" + request["TrainingJobName"] + "/output/model.tar.gz"},
                    SecondaryStatusTransitions=[], BillableTimeInSeconds=1, TrainingTimeInSeconds=1)
    if operation == "DescribeProcessingJob":
        return dict(made[-1][1], ProcessingJobStatus="Completed", CreationTime=now, ProcessingEndTime=now, LastModifiedTime=now)
    if operation == "GetRole":
        return {"Role": {"Arn": "arn:aws:iam::" + account + ":role/" + params["RoleName"], "RoleName": params["RoleName"], "Path": "/", "RoleId": "x", "CreateDate": now}}
    if operation == "GetCallerIdentity":
        return {"Account": account, "Arn": "arn:aws:iam::" + account + ":user/ann", "UserId": "x"}
    if operation == "HeadObject":
        raise botocore.exceptions.ClientError({"Error": {"Code": "404", "Message": "Not Found"}}, operation)
    return {"ListBuckets": {"Buckets": []}, "GetResources": {"ResourceTagMappingList": [], "PaginationToken": ""}, "ListPolicies": {"Policies": []}, "CreatePolicy": {"Policy": {"Arn": "arn:aws:iam::" + account + ":policy/x"}}, "Search": {"Results": []}, "ListTrainingJobs": {"TrainingJobSummaries": []}, "ListProcessingJobs": {"ProcessingJobSummaries": []}}.get(operation, {})


def complete_answer(self, operation, params):
    """Is answer, with what each answer has."""
    return {"ResponseMetadata": {"HTTPStatusCode": 200, "HTTPHeaders": {}}, "IsTruncated": False, **answer(self, operation, params)}


botocore.client.BaseClient._make_api_call = complete_answer
boto3.s3.transfer.S3Transfer.upload_file = lambda *args, **kwargs: None
sagemaker.session.Session.logs_for_job = lambda *args, **kwargs: None
sagemaker.session.Session.logs_for_processing_job = lambda *args, **kwargs: None

def ask(line):
    """Has the tool, or the SDK, carry out a line."""
    if line[0] != "estimator":
        sys.argv = ["ssm"] + line
        cli.main()
        return
    script, version, python, machine, count = line[1:]
    session = sagemaker.session.Session(default_bucket="bucket")
    PyTorch(entry_point=script, role="arn:aws:iam::" + account + ":role/train", framework_version=version, py_version=python, instance_type=machine, instance_count=int(count),
            sagemaker_session=session).fit()


recorded = os.path.abspath(sys.argv[2])
lines, out = json.load(open(sys.argv[1])), []
os.chdir(tempfile.mkdtemp())
os.makedirs("code")
os.makedirs("data")
for name in ("worker.py", "code/worker.py", "data/a"):
    open(name, "w").write("print(1)\n")
for line in lines:
    made.clear()
    said, sys.stdout = sys.stdout, io.StringIO()
    try:
        ask(line)
    except Exception as err:  # what it does once the job was asked for is not looked at
        print(line, repr(err), file=sys.stderr)
    finally:
        sys.stdout = said
    if not made:
        sys.exit("nothing was asked for by " + repr(line))
    operation, request = made[-1]
    text = json.dumps(request, default=str).replace(cli.__file__, "cli.py")
    for name in (request.get("TrainingJobName"), request.get("ProcessingJobName")):
        if name:
            text = text.replace(name, "JOB")
    out.append({"args": line, "operation": operation, "request": json.loads(text)})
with open(recorded, "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(o, sort_keys=True) for o in out) + "\n]\n")
