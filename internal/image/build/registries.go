package build

import (
	"context"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Cloud opens the registries of a vendor by this machine's account there.
type Cloud interface {
	// Has says whether a registry, such as 123456789012.dkr.ecr.eu-west-1.amazonaws.com, is the vendor's.
	Has(registry string) bool
	// Login is a user of the registry and its password.
	Login(ctx context.Context, registry string) (user, password string, err error)
	// MakeRepository makes a repository of the registry, unless it is there.
	MakeRepository(ctx context.Context, registry, repository string) error
}

// Registries are all registries, with the logins for them: the account of a registry's cloud, else what Docker's
// configuration has. The zero value knows no cloud.
type Registries struct {
	Clouds []Cloud
}

// cloudOf is the cloud of a registry; nil: it has none.
func (r Registries) cloudOf(registry string) Cloud {
	for _, c := range r.Clouds {
		if c.Has(registry) {
			return c
		}
	}
	return nil
}

// prepare reads the name of an image that is to be pushed, and makes what the push needs.
func (r Registries) prepare(ctx context.Context, ref string) (to name.Reference, err error) {
	if to, err = parseReference(ref); err != nil {
		return nil, err
	}
	if c := r.cloudOf(to.Context().RegistryStr()); c != nil {
		err = c.MakeRepository(ctx, to.Context().RegistryStr(), to.Context().RepositoryStr())
	}
	return to, err
}

// options are those of every call.
func (r Registries) options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(keychain{ctx, r}), remote.WithUserAgent("drover")}
}

// keychain finds logins. Docker's own, authn.DefaultKeychain, reads ~/.docker/config.json and runs the credential
// helpers that are named there.
type keychain struct {
	ctx context.Context
	at  Registries
}

func (k keychain) Resolve(of authn.Resource) (authn.Authenticator, error) {
	c := k.at.cloudOf(of.RegistryStr())
	if c == nil {
		return authn.DefaultKeychain.Resolve(of)
	}
	user, password, err := c.Login(k.ctx, of.RegistryStr())
	if err == nil {
		return authn.FromConfig(authn.AuthConfig{Username: user, Password: password}), nil
	}
	if a, other := authn.DefaultKeychain.Resolve(of); other == nil && a != authn.Anonymous {
		return a, nil
	}
	return nil, err
}

// login is what a registry is told of the user; ok is false where nothing is known.
func (r Registries) login(ctx context.Context, of name.Repository) (c *authn.AuthConfig, ok bool) {
	a, err := keychain{ctx, r}.Resolve(of)
	if err != nil || a == authn.Anonymous {
		return nil, false
	}
	c, err = a.Authorization()
	return c, err == nil
}
