// Package stack makes what a target needs in an account of AWS as one stack of CloudFormation: an
// administrator can read it as one template, AWS makes and deletes its resources in the right order, and goes on when
// the command that has asked for it is gone.
//
// It refuses to know what the resources are for: a target gives them with their properties. The suite of
// driver.Setup proves it, over a fake of CloudFormation (batchtest).
package stack

import (
	"encoding/json"
	"strings"

	"github.com/drover-run/drover/cloud/amazon/policy"
	"github.com/drover-run/drover/driver"
)

// Stack is what one set-up of a target consists of.
type Stack struct {
	Name        string // letters, digits and hyphens; at most 128
	Description string
	Tags        map[string]string // of the stack; CloudFormation gives them to what it makes
	// Options are kept with the stack, for a later command that does not name them. At most 4,096
	// bytes.
	Options   string
	Resources []Resource // in an order in which they can be made
}

// Resource is one resource of a stack.
type Resource struct {
	ID         string // its logical ID in the template: letters and digits
	Type       string // such as AWS::IAM::Role
	Kind       string // the same in words: "role"
	Name       string // the name that it will have; "": CloudFormation makes one
	Idle       string // what it costs an hour while nothing runs; "": nothing
	Properties map[string]any
	After      []string // IDs of what must be there before, beyond what Properties refer to
}

// The tag of all that drover makes in an account, by which a stack is known as drover's.
const (
	TagManaged = "managed-by"
	ManagedBy  = "drover"
)

// parameter is the one of the template that keeps Stack.Options.
const parameter = "Options"

// Ref is another resource in a property: its ID, or its name where it has no ID.
func Ref(id string) map[string]any { return map[string]any{"Ref": id} }

// Att is an attribute of another resource in a property, such as Arn.
func Att(id, attribute string) map[string]any {
	return map[string]any{"Fn::GetAtt": []string{id, attribute}}
}

// Sub is a text in a property with ${...} for names of resources and ${AWS::Partition}.
func Sub(text string) map[string]any { return map[string]any{"Fn::Sub": text} }

// Statements are those of a policy in a property, without their conditions: ARNs are of the stack's own partition, region and account.
func Statements(all []policy.Statement) (list []map[string]any) {
	own := strings.NewReplacer("arn:aws:", "arn:${AWS::Partition}:", ":*:*:", ":${AWS::Region}:${AWS::AccountId}:")
	for _, s := range all {
		var in []any
		for _, resource := range s.Resource {
			in = append(in, Sub(own.Replace(resource)))
		}
		list = append(list, map[string]any{"Sid": s.Sid, "Effect": s.Effect, "Action": s.Action, "Resource": in})
	}
	return list
}

// text is the resource in a template.
func (r Resource) text() json.RawMessage {
	in := map[string]any{"Type": r.Type, "Properties": r.Properties}
	if len(r.After) > 0 {
		in["DependsOn"] = r.After
	}
	text, err := json.Marshal(in)
	if err != nil {
		panic("stack: resource " + r.ID + ": " + err.Error()) // properties are text, numbers, lists and maps
	}
	return text
}

// request is the same for people.
func (r Resource) request() string {
	text, err := json.MarshalIndent(map[string]json.RawMessage{r.ID: r.text()}, "", "  ")
	if err != nil {
		panic("stack: resource " + r.ID + ": " + err.Error()) // as above
	}
	return string(text)
}

// Template is the stack as CloudFormation reads it.
func (s Stack) Template() string {
	resources := map[string]json.RawMessage{}
	for _, r := range s.Resources {
		resources[r.ID] = r.text()
	}
	text, err := json.Marshal(map[string]any{"AWSTemplateFormatVersion": "2010-09-09", "Description": s.Description,
		"Parameters": map[string]any{parameter: map[string]string{"Type": "String", "Default": "", "Description": "the options that drover was given; kept for its next command"}},
		"Resources":  resources})
	if err != nil {
		panic("stack: template " + s.Name + ": " + err.Error()) // as above
	}
	return string(text)
}

// pieces are the stack itself and its resources, all of them missing.
func (s Stack) pieces() []driver.Piece {
	all := []driver.Piece{{Kind: "stack", Name: s.Name, State: driver.PieceMissing, Request: "CreateStack " + s.Name + ": " + s.Description}}
	for _, r := range s.Resources {
		name := r.Name
		if name == "" {
			name = s.Name + "/" + r.ID
		}
		all = append(all, driver.Piece{Kind: r.Kind, Name: name, State: driver.PieceMissing, Idle: r.Idle, Request: r.request()})
	}
	return all
}
