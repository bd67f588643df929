package awsjson

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drover-run/drover/cloud/amazon"
)

// open is the account of this test, in a region.
func open(t *testing.T, region string) *amazon.Account {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testtest")
	a, err := amazon.Open(t.Context(), amazon.Options{Region: region})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var trains = Service{"sagemaker", "SAGEMAKER", "api.sagemaker", "SageMaker"}

func TestAnOperationIsSentAndItsAnswerRead(t *testing.T) {
	var got *http.Request
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		fmt.Fprint(w, `{"TrainingJobArn": "arn:1"}`)
	}))
	defer s.Close()
	c := Caller{trains, open(t, "eu-west-1")}
	c.Account.Config.BaseEndpoint = &s.URL
	var out struct{ TrainingJobArn string }
	if err := c.Call(t.Context(), "CreateTrainingJob", map[string]string{"TrainingJobName": "a"}, &out); err != nil || out.TrainingJobArn != "arn:1" {
		t.Fatalf("%+v, %v", out, err)
	}
	if got.Header.Get("X-Amz-Target") != "SageMaker.CreateTrainingJob" || got.Header.Get("Content-Type") != "application/x-amz-json-1.1" || string(body) != `{"TrainingJobName":"a"}` ||
		!strings.Contains(got.Header.Get("Authorization"), "/eu-west-1/sagemaker/aws4_request, SignedHeaders=content-length;content-type;host;x-amz-date;x-amz-target,") {
		t.Errorf("%v\n%s", got.Header, body)
	}
}

func TestErrorsAreReadAsThoseOfTheVendorsClients(t *testing.T) {
	for _, test := range []struct {
		status       int
		header, body string
		want         string
		cutOff       bool
	}{
		{400, "", `{"__type": "ResourceInUse", "Message": "It exists."}`, "the server says 400 ResourceInUse: It exists", false},
		{400, "", `{"__type": "com.amazonaws.sagemaker#ValidationException", "message": "no"}`, "the server says 400 ValidationException: no", false},
		{400, "ThrottlingException:http://internal/", `{"message": "slow"}`, "the server says 400 ThrottlingException: slow", false},
		{502, "", `<html>bad gateway</html>`, "the server says 502", false},
		{200, "", `{"TrainingJob`, "the server's answer cannot be read", true},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if test.header != "" {
				w.Header().Set("X-Amzn-ErrorType", test.header)
			}
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		}))
		c := Caller{trains, open(t, "eu-west-1")}
		c.Account.Config.BaseEndpoint = &s.URL
		err := c.Call(t.Context(), "DescribeTrainingJob", struct{}{}, &struct{ TrainingJobName string }{})
		a := amazon.ReadAnswer(err)
		if err == nil || !strings.HasPrefix(a.Error(), test.want) || a.Unclear() != (test.cutOff || test.status >= 500 || a.Throttled()) {
			t.Errorf("%d %s: %s, unclear %v", test.status, test.body, a.Error(), a.Unclear())
		}
		s.Close()
		if err := c.Call(t.Context(), "DescribeTrainingJob", struct{}{}, nil); !amazon.Sent(err) {
			t.Errorf("a server that is gone: %v", err)
		}
	}
}
