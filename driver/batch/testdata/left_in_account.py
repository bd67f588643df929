"""Prints what drover has left in an account, a line for each: nothing, after drover down.

    left_in_account.py ENDPOINT REGION
"""

import sys

import boto3

endpoint, region = sys.argv[1:]


def client(service):
    return boto3.client(service, endpoint_url=endpoint, region_name=region, aws_access_key_id="test", aws_secret_access_key="testtest")


batch, iam, ec2 = client("batch"), client("iam"), client("ec2")
left = []
left += [q["jobQueueName"] for q in batch.describe_job_queues()["jobQueues"]]
left += [e["computeEnvironmentName"] for e in batch.describe_compute_environments()["computeEnvironments"]]
left += [d["jobDefinitionName"] for d in batch.describe_job_definitions(status="ACTIVE")["jobDefinitions"]]
left += [r["RoleName"] for r in iam.list_roles()["Roles"] if not r["RoleName"].startswith("AWSServiceRole")]
left += [p["InstanceProfileName"] for p in iam.list_instance_profiles()["InstanceProfiles"]]
left += [v["VpcId"] for v in ec2.describe_vpcs()["Vpcs"] if not v["IsDefault"]]
left += [g["InternetGatewayId"] for g in ec2.describe_internet_gateways()["InternetGateways"] if g["Attachments"] or g["Tags"]]
left += [e["VpcEndpointId"] for e in ec2.describe_vpc_endpoints()["VpcEndpoints"] if e["State"] != "deleted"]
left += [t["LaunchTemplateName"] for t in ec2.describe_launch_templates()["LaunchTemplates"]]
left += [g["logGroupName"] for g in client("logs").describe_log_groups(logGroupNamePrefix="/drover")["logGroups"]]
left += [s["Name"] for s in client("secretsmanager").list_secrets()["SecretList"]]
left += [s["StackName"] for s in client("cloudformation").describe_stacks()["Stacks"]]
for name in left:
    print(name)
