package start

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/app"
)

// A plan that takes long, as in a folder of a million files, says so once.
func TestALongPlanSaysWhatGoesOn(t *testing.T) {
	for _, long := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			a := &app.App{Err: &said}
			want := &drover.Plan{}
			got, err := NewPlanner(a).awaitPlan(t.Context(), func(context.Context) (*drover.Plan, error) {
				took := longPlan - 1
				if long {
					took = 10 * longPlan
				}
				time.Sleep(took)
				return want, nil
			})
			if got != want || err != nil {
				t.Fatalf("it gave %v, %v", got, err)
			}
			if n := strings.Count(said.String(), "planning: still looking at"); n != map[bool]int{false: 0, true: 1}[long] {
				t.Errorf("long %v: it said %q", long, said.String())
			}
		})
	}
}
