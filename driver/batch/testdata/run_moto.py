"""Runs moto, a stand-in for AWS that others have made, with what its CloudFormation lacks.

    run_moto.py PORT

Each gap that is closed here is one of moto 5.2.5; what AWS does in its place is from AWS's documentation.
"""

import sys

from moto.batch.models import ComputeEnvironment, Job, JobQueue, JobStatus, batch_backends, lowercase_first_key
from moto.ec2.models import ec2_backends
from moto.ec2.models.internet_gateways import InternetGateway
from moto.ec2.models.route_tables import RouteTable
from moto.ec2.models.subnets import SubnetRouteTableAssociation
from moto.ec2.models.vpcs import VPCEndPoint
from moto.iam import iam_backends
from moto.server import main


def create_environment(cls, resource_name, cloudformation_json, account_id, region_name, **kwargs):
    """moto knows no default_x86_64, and wants the service's role to be named."""
    properties = cloudformation_json["Properties"]
    resources = lowercase_first_key(properties["ComputeResources"])
    if "instanceTypes" in resources:  # Fargate has none
        resources["instanceTypes"] = ["optimal" if t == "default_x86_64" else t for t in resources["instanceTypes"]]
    roles = iam_backends[account_id]["aws"]
    role = next((r for r in roles.roles.values() if r.name == "AWSServiceRoleForBatch"), None)
    if role is None:
        role = roles.create_role("AWSServiceRoleForBatch", "{}", "/", None, "", {}, "3600")
    return batch_backends[account_id][region_name].create_compute_environment(
        resource_name, properties["Type"], properties.get("State", "ENABLED"), resources, role.arn)


def create_queue(cls, resource_name, cloudformation_json, account_id, region_name, **kwargs):
    """moto forgets the tags of queues."""
    properties = cloudformation_json["Properties"]
    return batch_backends[account_id][region_name].create_job_queue(
        queue_name=resource_name, priority=properties["Priority"], state=properties.get("State", "ENABLED"),
        compute_env_order=[lowercase_first_key(e) for e in properties["ComputeEnvironmentOrder"]],
        schedule_policy=None, tags=properties.get("Tags", {}))


ComputeEnvironment.create_from_cloudformation_json = classmethod(create_environment)
JobQueue.create_from_cloudformation_json = classmethod(create_queue)

container_details = Job._container_details


def whole_details(self):
    """moto gives cores as 1.0, which is no integer for Amazon's clients in Go."""
    details = container_details(self)
    return details | {name: int(details[name]) for name in ("vcpus", "memory")}


Job._container_details = whole_details

describe_short = Job.describe_short


def described(self):
    """moto leaves an array with a child that has failed SUBMITTED for ever."""
    ends = {str(getattr(c.status, "value", c.status)) for c in self._child_jobs or []}
    if ends and ends <= {"SUCCEEDED", "FAILED"}:
        self.status = JobStatus.FAILED if "FAILED" in ends else JobStatus.SUCCEEDED
    return describe_short(self)


Job.describe_short = described

# moto deletes none of these with their stack.
ComputeEnvironment.delete = lambda self, account, region: batch_backends[account][region].delete_compute_environment(self.name)
JobQueue.delete = lambda self, account, region: batch_backends[account][region].delete_job_queue(self.name)
RouteTable.delete = lambda self, account, region: ec2_backends[account][region].delete_route_table(self.id)
VPCEndPoint.delete = lambda self, account, region: setattr(self, "state", "deleted")


def delete_gateway(self, account, region):
    backend = ec2_backends[account][region]
    if self.vpc is not None:  # the attachment is a resource of its own, which moto leaves
        backend.detach_internet_gateway(self.id, self.vpc.id)
    backend.delete_internet_gateway(self.id)


def delete_association(self, account, region):
    backend = ec2_backends[account][region]
    for table in backend.route_tables.values():
        for association, subnet in list(table._associations.items()):
            if subnet == self.subnet_id:
                backend.disassociate_route_table(association)


InternetGateway.delete = delete_gateway
SubnetRouteTableAssociation.delete = delete_association

main(["-H", "127.0.0.1", "-p", sys.argv[1]])
