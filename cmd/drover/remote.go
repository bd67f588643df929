//go:build !nobuckets

package main

import (
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/batch"
	"github.com/drover-run/drover/driver/ec2"
	"github.com/drover-run/drover/driver/gcpbatch"
	"github.com/drover-run/drover/driver/kube"
	"github.com/drover-run/drover/driver/sagemaker"
)

// remote are the targets with agents that need a bucket as their store.
var remote = []driver.Target{kube.Target, batch.Target, sagemaker.Target, ec2.Target, gcpbatch.Target}
