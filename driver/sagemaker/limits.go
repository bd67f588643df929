package sagemaker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/amazon/quota"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// quotaName is AWS's name of the quota of a type of machines.
func quotaName(machine string, k kind, spot bool) string {
	if spot {
		return machine + " for spot " + k.words + " usage"
	}
	return machine + " for " + k.words + " usage"
}

// increase is a command that asks AWS for more of a quota of which the code is not known.
func increase(region, name string) string {
	return fmt.Sprintf("aws service-quotas request-service-quota-increase --region %s --service-code %s --desired-value NUMBER --quota-code $(aws service-quotas list-service-quotas --region %s --service-code %s --query \"Quotas[?QuotaName=='%s'].QuotaCode\" --output text)",
		region, Name, region, Name, name)
}

// SageMaker has some thousand quotas, on twenty pages: they are kept for a while.
const (
	limitsGood = time.Hour
	limitsWait = 3 * time.Second // a plan waits for them
)

// limits are quotas as a file keeps them.
type limits struct {
	At     time.Time     `json:"at"`
	Quotas []quota.Quota `json:"quotas"`
}

// readLimits gives the quotas of machines in a region; none where they cannot be read: SageMaker says later what it refuses.
func (e *engine) readLimits(ctx context.Context, c *client, account string) []quota.Quota {
	file := filepath.Join(e.state, "quotas-"+c.region+"-"+account+".json")
	var kept limits
	if account != "" && folder.ReadJSON(file, &kept) == nil && time.Since(kept.At) < limitsGood && !kept.At.After(time.Now()) {
		return kept.Quotas
	}
	send := c.send
	send.Wait = min(send.Wait, limitsWait)
	ctx, cancel := context.WithTimeout(ctx, limitsWait)
	defer cancel()
	all, err := quota.List(ctx, send, Name)
	if err != nil {
		return nil
	}
	all = slices.DeleteFunc(all, func(q quota.Quota) bool { return !strings.HasSuffix(q.Name, " job usage") })
	if text, err := json.Marshal(limits{time.Now(), all}); err == nil && account != "" && os.MkdirAll(e.state, 0o700) == nil {
		if os.WriteFile(file+".new", text, 0o600) == nil {
			_ = os.Rename(file+".new", file) // the next plan asks again
		}
	}
	return all
}

// checkLimit holds needs against what the account may use at once: nodes or an agent that it does not allow are refused, and the note says how many of
// several workers it allows. Other jobs of the account count too, which nothing tells.
func (e *engine) checkLimit(ctx context.Context, c *client, n driver.Needs, m machine, at site) (note string, err error) {
	name := quotaName(m.name, at.kind(), isSpot(n, at.kind()))
	all := e.readLimits(ctx, c, at.account)
	i := slices.IndexFunc(all, func(q quota.Quota) bool { return q.Name == name })
	if i < 0 || all[i].Value >= float64(n.Agents) {
		return "", nil
	}
	q, least := all[i], 1
	if n.Place.Nodes > 1 {
		least = n.Agents
	}
	if q.Value < float64(least) {
		return "", fault.New(fault.Full, "Name another type with `--machine`, or ask AWS for more: `"+q.Increase(c.region, float64(n.Agents))+"`.", "the account's quota %q is %g in %s, and the job needs %d", q.Name, q.Value, c.region, least)
	}
	return fmt.Sprintf("the account's quota %q is %g in %s: at most so many of %d workers run at once", q.Name, q.Value, c.region, n.Agents), nil
}
