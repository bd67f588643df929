package app

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// CompleteJobs offers the ids of jobs.
func (a *App) CompleteJobs(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.OpenClient(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	jobs, err := c.Jobs(cmd.Context(), a.Settings.Project)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words := []string{"last"}
	slices.Reverse(jobs)
	for i, j := range jobs {
		if i == 20 {
			break
		}
		if s, err := j.Status(cmd.Context()); err == nil {
			words = append(words, fmt.Sprintf("%s\t%s %s", s.ID, s.Task, strings.ToLower(string(s.State))))
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// Exactly is the arguments of verbs that take n words.
func Exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return fault.New(fault.Invalid, "Write it as "+cmd.UseLine()+".", "read command line: %s takes %s, not %d", cmd.CommandPath(), terminal.Count(n, "argument"), len(args))
	}
}

// Between is the arguments of verbs that take some words more or less.
func Between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		return fault.New(fault.Invalid, "Write it as "+cmd.UseLine()+".", "read command line: %s takes %d to %d words, not %d", cmd.CommandPath(), least, most, len(args))
	}
}

// AtMostOne is the arguments of verbs that take a job.
func AtMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fault.New(fault.Invalid, "Name one job: drover "+cmd.Name()+" "+args[0]+".", "read command line: %d jobs named, drover %s takes one", len(args), cmd.Name())
	}
	return nil
}

// Expression compiles what a flag says; nil when it says nothing.
func Expression(flag, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "Put a backslash before what is meant as it is, such as \\( or \\[.", "read %s: %s", flag, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return re, nil
}
