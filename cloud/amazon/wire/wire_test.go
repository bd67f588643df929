package wire

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
)

func TestTheEndpointIsWhereItIsSaidToBe(t *testing.T) {
	trains := Service{"sagemaker", "SAGEMAKER", "api.sagemaker"}
	expect := func(c aws.Config, want string) {
		t.Helper()
		if got := endpoint(c, trains); got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
	expect(aws.Config{Region: "eu-west-1"}, "https://api.sagemaker.eu-west-1.amazonaws.com")
	expect(aws.Config{Region: "cn-north-1"}, "https://api.sagemaker.cn-north-1.amazonaws.com.cn")
	own := aws.Config{Region: "eu-west-1", BaseEndpoint: aws.String("http://all")}
	expect(own, "http://all")
	t.Setenv("AWS_ENDPOINT_URL_SAGEMAKER", "http://one")
	expect(own, "http://one")
}
