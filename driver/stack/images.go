package stack

import (
	"context"
	"strings"

	"github.com/drover-run/drover/cloud/amazon/registry"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// Images are the images that were built for the jobs of a set-up: they lie in ECR, in repositories below the stack's name, and go with
// the stack. The zero value has none.
type Images struct {
	at             *registry.Registries
	registry, name string
}

// NewImages are those of a stack in a region of an account.
func NewImages(at *registry.Registries, account, region, stack string) Images {
	return Images{at, registry.Name(account, region), strings.ToLower(stack)} // ECR takes small letters
}

// Prefix is that of their names, as in driver.Offer.Registry; "": there is no set-up.
func (i Images) Prefix() string {
	if i.at == nil {
		return ""
	}
	return i.registry + "/" + i.name
}

// Pieces are the repositories that there are. A user without rights to ECR has none.
func (i Images) Pieces(ctx context.Context) (all []driver.Piece, err error) {
	if i.at == nil {
		return nil, nil
	}
	names, err := i.at.Repositories(ctx, i.registry, i.name+"/")
	if err != nil && fault.KindOf(err) != fault.Denied {
		return nil, err
	}
	for _, name := range names {
		all = append(all, driver.Piece{Kind: "image repository", Name: name, State: driver.PieceThere, Idle: "what ECR asks for its images"})
	}
	return all, nil
}

// Delete deletes the repositories, and calls gone after each.
func (i Images) Delete(ctx context.Context, gone func(driver.Piece)) error {
	all, err := i.Pieces(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := i.at.DeleteRepository(ctx, i.registry, p.Name); err != nil {
			return err
		}
		gone(p)
	}
	return nil
}
