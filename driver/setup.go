package driver

import "context"

// Setup makes what a target needs in an account or a cluster before agents can be started
// there: roles, queues, networks, repositories. A target that needs nothing has no Setup.
//
// Pieces have names that follow from the scope. So any machine with the same rights
// describes the same pieces, and nothing has to be remembered.
type Setup interface {
	// Describe gives every piece in the order in which they are made, and changes nothing.
	Describe(ctx context.Context, s Scope) ([]Piece, error)

	// Apply makes the pieces that are missing, in their order, and calls made after each. It
	// leaves existing pieces as they are: a second Apply changes nothing, and an Apply after
	// one that was cut off goes on. When a piece is foreign it makes nothing: a fault of kind
	// Invalid names the piece.
	Apply(ctx context.Context, s Scope, made func(Piece)) error

	// Destroy takes away the pieces that are this set-up's own, in the reverse order, and calls
	// gone after each. It passes over missing and foreign pieces, so that a Destroy after one
	// that was cut off goes on. The caller makes sure that no placement is left.
	Destroy(ctx context.Context, s Scope, gone func(Piece)) error
}

// Scope says what a target is set up for.
type Scope struct {
	Store   string   // where jobs keep their facts, as typed after --store; absolute
	Project string   // the rights are for agents of this project
	Detail  string   // what the target's name says after its slash; "": the target's own choice
	Args    []string // options of the target's own, as in Needs
	// Rights is what agents of the project must be granted on the store, as the store's owner
	// writes it: for S3 a policy of IAM. "": the store grants nothing apart.
	Rights string
}

// Piece is one thing that a target needs in its account or cluster.
type Piece struct {
	Kind  string     `json:"kind"` // in the engine's own word: "role", "job queue"
	Name  string     `json:"name"`
	State PieceState `json:"state"`
	// Idle is what it costs an hour while nothing runs, in words with the currency: "$0.00".
	// "": nothing.
	Idle string `json:"idle,omitempty"`
	// Request is the request that would make it, as text; a policy is shown whole.
	Request string `json:"request,omitempty"`
	// Why says what is wrong with a piece that is foreign: its owner, or what differs.
	Why string `json:"why,omitempty"`
}

// PieceState says whether a piece exists, and whether it is the set-up's own.
type PieceState string

// The states of a piece.
const (
	PieceThere   PieceState = "there"   // made by a set-up of this scope
	PieceMissing PieceState = "missing" // not there, or half made: Apply makes it
	PieceForeign PieceState = "foreign" // something else has its name
)
