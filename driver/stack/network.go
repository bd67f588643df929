package stack

import "fmt"

// The addresses of a set-up's own network: a block of 4,096 for each zone.
const (
	networkBlock = "10.213.0.0/16"
	zoneBlock    = "10.213.%d.0/20"
)

// ZonesOf is in how many zones a region's network lies where nothing was said: as many as all accounts have.
func ZonesOf(region string) int {
	switch region {
	case "us-east-1":
		return 6
	case "us-west-2", "ap-northeast-2":
		return 4
	case "us-west-1", "cn-north-1":
		return 2
	}
	return 3
}

// Network is a network of the set-up's own, with public addresses and a way to S3 of its own, as resources
// and as what machines are told of it. None of it costs anything while no machine runs.
func Network(name string, zones int) (all []Resource, subnets, groups []any) {
	tag := []map[string]string{{"Key": "Name", "Value": name}}
	add := func(id, typ, kind string, properties map[string]any, after ...string) {
		all = append(all, Resource{ID: id, Type: typ, Kind: kind, Properties: properties, After: after})
	}
	add("Network", "AWS::EC2::VPC", "network", map[string]any{"CidrBlock": networkBlock, "EnableDnsSupport": true, "EnableDnsHostnames": true, "Tags": tag})
	add("Gateway", "AWS::EC2::InternetGateway", "gateway", map[string]any{"Tags": tag})
	add("Attachment", "AWS::EC2::VPCGatewayAttachment", "gateway attachment", map[string]any{"VpcId": Ref("Network"), "InternetGatewayId": Ref("Gateway")})
	add("Routes", "AWS::EC2::RouteTable", "route table", map[string]any{"VpcId": Ref("Network"), "Tags": tag})
	add("WayOut", "AWS::EC2::Route", "route", map[string]any{"RouteTableId": Ref("Routes"), "DestinationCidrBlock": "0.0.0.0/0", "GatewayId": Ref("Gateway")}, "Attachment")
	add("Bucket", "AWS::EC2::VPCEndpoint", "endpoint of S3", map[string]any{"VpcId": Ref("Network"), "ServiceName": Sub("com.amazonaws.${AWS::Region}.s3"), "RouteTableIds": []any{Ref("Routes")}})
	for i := range zones {
		id := fmt.Sprintf("Subnet%d", i+1)
		add(id, "AWS::EC2::Subnet", "subnet", map[string]any{"VpcId": Ref("Network"), "CidrBlock": fmt.Sprintf(zoneBlock, 16*i), "MapPublicIpOnLaunch": true,
			"AvailabilityZone": map[string]any{"Fn::Select": []any{i, map[string]any{"Fn::GetAZs": ""}}}, "Tags": tag})
		add(id+"Routes", "AWS::EC2::SubnetRouteTableAssociation", "routes of a subnet", map[string]any{"SubnetId": Ref(id), "RouteTableId": Ref("Routes")})
		subnets = append(subnets, Ref(id))
	}
	add("Peers", "AWS::EC2::SecurityGroup", "security group", map[string]any{"VpcId": Ref("Network"), "GroupDescription": "drover: machines reach each other, and nothing else reaches them", "Tags": tag})
	add("PeersOnly", "AWS::EC2::SecurityGroupIngress", "rule", map[string]any{"GroupId": Att("Peers", "GroupId"), "SourceSecurityGroupId": Att("Peers", "GroupId"), "IpProtocol": "-1"})
	return all, subnets, []any{Att("Peers", "GroupId")}
}
