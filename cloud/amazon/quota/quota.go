// Package quota reads how much an account may use at once of Amazon's machines: Service Quotas has it, for each family of
// machines and each way of buying them.
//
// It refuses to know what the machines are for. Its tests prove how the names of quotas are read; the names are those of
// AWS's documentation, and were not asked for in an account.
package quota

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"

	"github.com/drover-run/drover/cloud/amazon"
)

// Quota is one of an account in a region.
type Quota struct {
	Service string  // "ec2", "fargate"
	Code    string  // by which an increase is asked for
	Name    string  // AWS's, such as "All G and VT Spot Instance Requests"
	Value   float64 // of vCPUs
}

// Increase is a command that asks AWS for more.
func (q Quota) Increase(region string, wanted float64) string {
	return fmt.Sprintf("aws service-quotas request-service-quota-increase --region %s --service-code %s --quota-code %s --desired-value %g", region, q.Service, q.Code, wanted)
}

// List gives the quotas of a service in the account's region.
func List(ctx context.Context, send amazon.Sender, service string) (all []Quota, err error) {
	api := servicequotas.NewFromConfig(send.Account.Config)
	in := &servicequotas.ListServiceQuotasInput{ServiceCode: &service, MaxResults: aws.Int32(100)}
	for {
		var out *servicequotas.ListServiceQuotasOutput
		err := send.Read(ctx, "list quotas", func(ctx context.Context) (err error) {
			out, err = api.ListServiceQuotas(ctx, in)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, q := range out.Quotas {
			all = append(all, Quota{service, aws.ToString(q.QuotaCode), aws.ToString(q.QuotaName), aws.ToFloat64(q.Value)})
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return all, nil
		}
	}
}

// The form of the names of EC2's quotas, and of machines' types.
var (
	spotName     = regexp.MustCompile(`^All (.+) Spot Instance Requests$`)
	onDemandName = regexp.MustCompile(`^Running On-Demand (.+) instances$`)
	listed       = regexp.MustCompile(`\((.+)\)`)
	typeForm     = regexp.MustCompile(`^([a-z]+)([0-9]*)`)
)

// OfMachines is the quota of EC2 for a type or family of machines, such as g5.xlarge; ok is false where none is known. Words
// of AWS Batch's for several families, such as default_x86_64 and optimal, mean those of the standard quota.
func OfMachines(all []Quota, kind string, spot bool) (found Quota, ok bool) {
	family, generation := "m", ""
	if kind != "optimal" && !strings.HasPrefix(kind, "default_") {
		m := typeForm.FindStringSubmatch(kind)
		if m == nil {
			return found, false
		}
		family, generation = m[1], m[2]
	}
	form := onDemandName
	if spot {
		form = spotName
	}
	for _, q := range all {
		m := form.FindStringSubmatch(q.Name)
		if m == nil {
			continue
		}
		for _, name := range families(m[1]) {
			if name == family+generation && generation != "" { // of a generation, such as P5
				return q, true
			}
			if name == family {
				found, ok = q, true
			}
		}
	}
	return found, ok
}

// families are those of a quota's name, in small letters.
func families(name string) (all []string) {
	if m := listed.FindStringSubmatch(name); m != nil {
		name = m[1]
	}
	return strings.Fields(strings.NewReplacer(",", " ", " and ", " ").Replace(strings.ToLower(name)))
}

// OfFargate is that of Fargate.
func OfFargate(all []Quota, spot bool) (Quota, bool) {
	name := "Fargate On-Demand vCPU resource count"
	if spot {
		name = "Fargate Spot vCPU resource count"
	}
	for _, q := range all {
		if q.Service == "fargate" && q.Name == name {
			return q, true
		}
	}
	return Quota{}, false
}
