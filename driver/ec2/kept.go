package ec2

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/drover-run/drover/driver/ec2/instancetype"
	"github.com/drover-run/drover/driver/folder"
)

// typesGood is how long the types of a region are kept.
const typesGood = 24 * time.Hour

// readTypes gives the types of machines of a region that any zone has. They are kept in a file.
func (e *engine) readTypes(ctx context.Context, c *client) ([]instancetype.Type, error) {
	var kept struct {
		At    time.Time           `json:"at"`
		Types []instancetype.Type `json:"types"`
	}
	file := filepath.Join(e.state, "types-"+c.region+".json")
	if folder.ReadJSON(file, &kept) == nil && e.now().Sub(kept.At) < typesGood && !kept.At.After(e.now()) && len(kept.Types) > 0 {
		return kept.Types, nil
	}
	all, err := instancetype.Describe(ctx, c.ReadMachines)
	if err != nil {
		return nil, err
	}
	kept.At, kept.Types = e.now(), all
	if text, err := json.Marshal(kept); err == nil && os.MkdirAll(e.state, 0o700) == nil {
		part := file + ".new." + strconv.Itoa(os.Getpid())
		if os.WriteFile(part, text, 0o600) == nil {
			_ = os.Rename(part, file) // the next plan asks again
		}
	}
	return all, nil
}
