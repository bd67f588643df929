package drover

import (
	"github.com/drover-run/drover/report"
)

// What a job's items have come to.
type (
	// Waiting is something that agents wait for.
	Waiting = report.Waiting
	// ItemResult is one item of a map.
	ItemResult = report.ItemResult
	// Try is one recorded try of an item.
	Try = report.Try
	// ItemFile is one output of a try.
	ItemFile = report.ItemFile
	// ResultOptions choose items.
	ResultOptions = report.ResultOptions
	// PrintOptions are for Job.PrintInOrder.
	PrintOptions = report.PrintOptions
	// Figures sum up the items that have ended with a result.
	Figures = report.Figures
	// Spread is how a figure differs between items.
	Spread = report.Spread
	// Bar is a part of a Spread's histogram.
	Bar = report.Bar
	// Group is items that ended without success in the same way.
	Group = report.Group
	// Advice is what items could ask for instead.
	Advice = report.Advice
	// TopOptions say which results come first.
	TopOptions = report.TopOptions
	// Ranked is an item, and the number that it was ordered by.
	Ranked = report.Ranked
	// Ranking is the head of an order.
	Ranking = report.Ranking
	// Pilot is what a sample of items came to.
	Pilot = report.Pilot
	// Forecast is what running all items will take.
	Forecast = report.Forecast
	// Difference is an item that two jobs have not ended alike.
	Difference = report.Difference
)

// MaxStdout is the longest standard output of an item that ResultOptions.Whole gives.
const MaxStdout = report.MaxStdout

// What a job has printed and measured.
type (
	// LogOptions choose output.
	LogOptions = report.LogOptions
	// Output is a piece of what a program printed, as it was read.
	Output = report.Output
	// Line is one line of a program's output.
	Line = report.Line
	// MetricOptions choose metrics and samples.
	MetricOptions = report.MetricOptions
	// Series is one metric of one node in one attempt.
	Series = report.Series
	// Point is one value of a metric.
	Point = report.Point
	// NodeUsage is what one node used in one attempt.
	NodeUsage = report.NodeUsage
	// Sample is what a node's program used at one moment.
	Sample = report.Sample
	// GPUSample is what one GPU did.
	GPUSample = report.GPUSample
)

// What a job has made.
type (
	// GetOptions say what is brought, and how.
	GetOptions = report.GetOptions
	// Got says what Job.Get brought.
	Got = report.Got
	// GotItems says what Job.Get brought of a map.
	GotItems = report.GotItems
	// GotState says what Client.GetState brought.
	GotState = report.GotState
	// Part is one of the folders that were brought.
	Part = report.Part
	// Changes are what Get did to files that were there before.
	Changes = report.Changes
	// Beside is a file that could not have its name.
	Beside = report.Beside
	// Kept is one folder that a task keeps.
	Kept = report.Kept
	// Made says what a job has made.
	Made = report.Made
)

// What verify says of a job.
type (
	// Verified is what Job.Verify found.
	Verified = report.Verified
	// ExtraRuns counts recorded tries of items beyond one for each.
	ExtraRuns = report.ExtraRuns
	// VerifyNote is an entry and what is to be said of it.
	VerifyNote = report.VerifyNote
	// Finding is what does not agree.
	Finding = report.Finding
	// VerifyProgress is how far a Verify has come.
	VerifyProgress = report.VerifyProgress
	// VerifyOptions say how much is read.
	VerifyOptions = report.VerifyOptions
)

// What a command comes to.
type (
	// Action is what a command comes to, given what is there already.
	Action = report.Action
	// PlannedCode is the files that go along with a plan's program.
	PlannedCode = report.PlannedCode
	// LeftFile is a file that is no code, and why.
	LeftFile = report.LeftFile
	// Unshipped counts the ignored files in a code's folder.
	Unshipped = report.Unshipped
	// PlannedPython is the Python environment that a plan's script will find.
	PlannedPython = report.PlannedPython
	// PlannedImage is what a planned job's agents run in.
	PlannedImage = report.PlannedImage
	// PlannedItems is what a plan knows of a map's items.
	PlannedItems = report.PlannedItems
	// Requests are requests to an object store.
	Requests = report.Requests
	// Dollars is an amount of money.
	Dollars = report.Dollars
	// StorePrice is what a maker of object stores asks for 1,000 requests.
	StorePrice = report.StorePrice
	// Cost is about what a job asks of an object store.
	Cost = report.Cost
	// Sending is what a Plan's Watch hears of while it submits.
	Sending = report.Sending
	// CopyProgress is how far a copy is.
	CopyProgress = report.CopyProgress
	// Copied is what a copy did.
	Copied = report.Copied
)

// The actions.
const (
	ActionStart   = report.ActionStart
	ActionAttach  = report.ActionAttach
	ActionResume  = report.ActionResume
	ActionReplace = report.ActionReplace
	ActionSkip    = report.ActionSkip
	ActionExtend  = report.ActionExtend
	ActionReopen  = report.ActionReopen
)

// The files that items name, and those of one input after the other.
const (
	SendingItems  = report.SendingItems
	SendingInputs = report.SendingInputs
)
