package driver

import "context"

// Setup is what a target stands on in an account or a cluster before agents can be started
// there: roles, queues, networks, repositories. A target that stands on nothing has none.
//
// Pieces have names that follow from the scope, so that any machine with the same rights
// describes the same ones, and nothing has to be remembered.
type Setup interface {
	// Describe gives every piece in the order in which they are made, and changes nothing.
	Describe(ctx context.Context, s Scope) ([]Piece, error)

	// Apply makes the pieces that are missing, in their order, and calls made after each. What
	// is there is left as it is, so that a second Apply changes nothing, and one after an Apply
	// that was cut off goes on. When a piece is foreign nothing is made: a fault of kind
	// Invalid names it.
	Apply(ctx context.Context, s Scope, made func(Piece)) error

	// Destroy takes away the pieces that are this set-up's own, in the reverse order, and calls
	// gone after each. What is missing and what is foreign is passed over, so that a Destroy
	// after one that was cut off goes on. No placement is left by then.
	Destroy(ctx context.Context, s Scope, gone func(Piece)) error
}

// Scope says for what a target is set up.
type Scope struct {
	Store   string   // where jobs keep their facts, as typed after --store; absolute
	Project string   // the rights are for agents of this project
	Detail  string   // what the target's name says after its slash; "": the target's own choice
	Args    []string // options of the target's own, as in Needs
}

// Piece is one thing that a target stands on.
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

// PieceState is how a piece stands.
type PieceState string

// The states of a piece.
const (
	PieceThere   PieceState = "there"   // made by a set-up of this scope
	PieceMissing PieceState = "missing" // not there, or half made: Apply makes it
	PieceForeign PieceState = "foreign" // something else has its name
)
