package batchtest

import (
	"strings"

	"github.com/drover-run/drover/cloud/amazon/quota/quotatest"
)

// newQuotas are those of an account that has used much.
func newQuotas() *quotatest.Quotas {
	return quotatest.New(map[string]float64{"All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests": 6400, "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances": 6400,
		"All G and VT Spot Instance Requests": 640, "Running On-Demand G and VT instances": 640},
		func(name string) string {
			if strings.HasPrefix(name, "Fargate ") {
				return "fargate"
			}
			return "ec2"
		})
}
