package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drover-run/drover/internal/cli/manual"
	"github.com/drover-run/drover/internal/cli/sagemaker"
)

func (a commandTree) printHelp(cmd *cobra.Command, _ []string) {
	if !cmd.HasParent() {
		fmt.Fprint(a.Out, manual.Front)
		return
	}
	fmt.Fprintf(a.Out, "%s\n\n  drover %s\n", cmd.Short, strings.TrimPrefix(cmd.UseLine(), "drover "))
	if e := manual.Examples[cmd.Name()]; e != "" && !cmd.Parent().HasParent() { // "config get" is not "get"
		fmt.Fprintf(a.Out, "\nExamples\n%s\n", e)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(a.Out, "\nVerbs")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(a.Out, "  %-22s %s\n", sub.Use, sub.Short)
			}
		}
	}
	head := "\nFlags\n"
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			fmt.Fprint(a.Out, head)
			a.printFlagHelp(f)
			head = ""
		}
	})
}

func (a commandTree) printFlagHelp(f *pflag.Flag) {
	name := "    --" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", --" + f.Name
	}
	if t := f.Value.Type(); t != "bool" {
		name += " " + strings.ToUpper(strings.TrimSuffix(t, "Array"))
	}
	fmt.Fprintf(a.Out, "  %-28s %s\n", name, f.Usage)
}

func (a commandTree) newHelpCommand() *cobra.Command {
	return &cobra.Command{Use: "help [VERB|TOPIC]", Short: "Explain a verb or a topic", Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			if len(args) == 0 {
				a.printHelp(root, nil)
				return nil
			}
			if text, ok := manual.Topics[args[0]]; ok {
				fmt.Fprint(a.Out, text)
				return nil
			}
			found, rest, err := root.Find(args)
			if err == nil && found.Name() == "ssm" {
				return sagemaker.NewVerb(a.App).PrintHelp(rest)
			}
			if err != nil || len(rest) > 0 || found == root {
				return a.answerNoVerb(root, args)
			}
			a.printHelp(found, nil)
			return nil
		}}
}
