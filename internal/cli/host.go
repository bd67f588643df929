package cli

import (
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/config"
)

// What the program hands to Main: the host, and what it is made of.
type (
	Host   = app.Host
	Agents = app.Agents
	Rights = app.Rights
	Dirs   = config.Dirs
	Queues = app.Queues
	Line   = app.Line
	Claim  = app.Claim
)
