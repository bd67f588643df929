package start

import (
	"github.com/spf13/pflag"

	"github.com/drover-run/drover/job/option"
)

// optionFlags binds variables to the flags of a job's options: their names and texts are
// those of the table in package job.
type optionFlags struct{ *pflag.FlagSet }

func (f optionFlags) textFlag(to *string, field string) {
	o := option.Of(field)
	f.StringVarP(to, o.Flag, o.Short, "", o.Usage)
}

func (f optionFlags) listFlag(to *[]string, field string) {
	o := option.Of(field)
	f.StringArrayVarP(to, o.Flag, o.Short, nil, o.Usage)
}

func (f optionFlags) numberFlag(to *int, field string, otherwise int) {
	o := option.Of(field)
	f.IntVarP(to, o.Flag, o.Short, otherwise, o.Usage)
}

func (f optionFlags) fractionFlag(to *float64, field string) {
	o := option.Of(field)
	f.Float64VarP(to, o.Flag, o.Short, 0, o.Usage)
}

func (f optionFlags) boolFlag(to *bool, field string) {
	o := option.Of(field)
	f.BoolVarP(to, o.Flag, o.Short, false, o.Usage)
}

// setItemsUsage gives flags the texts that they have for a map.
func (f optionFlags) setItemsUsage() {
	for _, o := range option.All() {
		if o.ItemsUsage != "" {
			f.Lookup(o.Flag).Usage = o.ItemsUsage
		}
	}
}
