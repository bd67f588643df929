"""Holds requests to AWS Batch and the answers of a fake of it to the vendor's own model of the service.

    judge_requests.py GOLDEN ENDPOINT REGION

The fake at ENDPOINT is asked for what drover asks for. PYTHONPATH has botocore, and the folder of judge.py.
"""

import sys

import boto3
from judge import judge_answers, judge_requests

golden, endpoint, region = sys.argv[1:]
count = judge_requests("batch", golden)
client = boto3.client("batch", endpoint_url=endpoint, region_name=region, aws_access_key_id="test", aws_secret_access_key="testtest")
seen = judge_answers(client)
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
print(count + len(seen), "judged", file=sys.stderr)
