"""Holds requests to SageMaker and the answers of a fake of it to the vendor's own model of the service.

    judge_requests.py TRAINING PROCESSING ENDPOINT REGION

TRAINING and PROCESSING have golden requests.

The fake at ENDPOINT is asked for what drover asks for. PYTHONPATH has botocore, and the folder of judge.py.
"""

import json
import sys

import boto3
from judge import judge_answers, judge_requests

golden, processing, endpoint, region = sys.argv[1:]
count = judge_requests("sagemaker", golden) + judge_requests("sagemaker", processing)
client = boto3.client("sagemaker", endpoint_url=endpoint, region_name=region, aws_access_key_id="test", aws_secret_access_key="testtest")
seen = judge_answers(client)
request = json.loads(open(golden).read().split("\n", 1)[1])
client.create_training_job(**request)
try:
    client.create_training_job(**request)
    print("a name was used twice")
except client.exceptions.ResourceInUse:
    pass
client.describe_training_job(TrainingJobName=request["TrainingJobName"])
client.list_training_jobs(NameContains="drover-", StatusEquals="InProgress", SortBy="CreationTime", SortOrder="Ascending", MaxResults=100)
client.stop_training_job(TrainingJobName=request["TrainingJobName"])
client.describe_training_job(TrainingJobName=request["TrainingJobName"])
request = json.loads(open(processing).read().split("\n", 1)[1])
client.create_processing_job(**request)
client.describe_processing_job(ProcessingJobName=request["ProcessingJobName"])
client.list_processing_jobs(NameContains="drover-", StatusEquals="InProgress", SortBy="CreationTime", SortOrder="Ascending", MaxResults=100)
client.stop_processing_job(ProcessingJobName=request["ProcessingJobName"])
print(count + len(seen), "judged", file=sys.stderr)
