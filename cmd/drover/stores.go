package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
	"github.com/drover-run/drover/store/gcs"
	"github.com/drover-run/drover/store/s3"
)

// openBucket opens what --store names; endpoint is where the server of a bucket
// is, if its url does not say so.
func openBucket(ctx context.Context, url, endpoint string) (b store.Bucket, near bool, err error) {
	return openStore(ctx, url, endpoint, "", 0)
}

// openStore is openBucket; pass is the file of one that was handed over, "": none;
// patience is how long a server is tried that has never answered, 0: as its package
// thinks right.
func openStore(ctx context.Context, url, endpoint, pass string, patience time.Duration) (b store.Bucket, near bool, err error) {
	path := strings.TrimPrefix(url, "file://")
	switch scheme, _, ok := strings.Cut(path, "://"); {
	case ok && scheme == "s3":
		b, err := s3.Open(ctx, url, s3.Options{Endpoint: endpoint, PassFile: pass, Patience: patience})
		if err != nil {
			return nil, false, err
		}
		return weather(b), false, nil
	case ok && scheme == "gs":
		b, err := gcs.Open(ctx, url, gcs.Options{Endpoint: endpoint})
		if err != nil {
			return nil, false, err
		}
		return weather(b), false, nil
	case ok:
		return nil, false, fault.New(fault.Invalid, "Name a folder or a bucket: --store /data/drover, --store s3://bucket/prefix, --store gs://bucket/prefix.",
			"open store: this drover knows no %s:// stores", scheme)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, false, err
	}
	b, err = dir.Open(path, dir.OS)
	if err != nil {
		return nil, false, err
	}
	return weather(b), true, nil
}

// ofMachine is the profile of agents that are whoever their machine is.
const ofMachine = "machine"

// rights are what others than this process open such a store with.
func rights(ctx context.Context, url, endpoint string, who cli.Agents) (cli.Rights, error) {
	switch scheme, _, _ := strings.Cut(url, "://"); scheme {
	case "s3":
	case "gs":
		return cli.Rights{Policy: func(store.Rights) (string, error) {
			b, err := gcs.Open(ctx, url, gcs.Options{Endpoint: endpoint})
			if err != nil {
				return "", err
			}
			return b.Policy(), nil
		}}, nil
	default:
		return cli.Rights{}, nil
	}
	// Most commands need none of it, and to read a configuration takes a while.
	own := sync.OnceValues(func() (*s3.Bucket, error) { return s3.Open(ctx, url, s3.Options{Endpoint: endpoint}) })
	r := cli.Rights{Policy: func(r store.Rights) (string, error) {
		b, err := own()
		if err != nil {
			return "", err
		}
		return b.Policy(r), nil
	}}
	if who.Profile == "" {
		r.Passes.Make = ofCaller(own, who.Role)
		return r, nil
	}
	b, err := own()
	if err != nil {
		return r, err
	}
	if who.Profile == ofMachine {
		r.Passes.Store = b.As("")
		return r, nil
	}
	r.Passes = drover.Passes{Store: b.As(who.Profile), Make: ofProfile(b.As(who.Profile), who)}
	return r, nil
}

// ofCaller makes passes of whoever types.
func ofCaller(own func() (*s3.Bucket, error), role string) func(context.Context, store.Rights, bool) (drover.Pass, error) {
	return func(ctx context.Context, r store.Rights, images bool) (drover.Pass, error) {
		b, err := own()
		if err != nil {
			return drover.Pass{}, err
		}
		if p := b.Profile(); p != "" && !images {
			return drover.Pass{Note: "agents open it as profile " + p + " of their machine"}, nil
		}
		p, err := b.Pass(ctx, r, role)
		if err != nil {
			return drover.Pass{}, err
		}
		return drover.Pass{File: p.File, Until: p.Until, Note: ofPass(p)}, nil
	}
}

// ofProfile makes passes of a profile that was named for agents: it is resolved on
// their machine, but for those in images, who see none of its files.
func ofProfile(url string, who cli.Agents) func(context.Context, store.Rights, bool) (drover.Pass, error) {
	return func(ctx context.Context, r store.Rights, images bool) (drover.Pass, error) {
		note := "agents open it as profile " + who.Profile
		if !images {
			return drover.Pass{Note: note + " of their machine"}, nil
		}
		b, err := s3.Open(ctx, url, s3.Options{})
		if err != nil {
			return drover.Pass{}, err
		}
		p, err := b.Pass(ctx, r, who.Role)
		return drover.Pass{File: p.File, Until: p.Until, Note: note}, err
	}
}

// ofPass says in half a line what agents are given.
func ofPass(p store.Pass) string {
	switch {
	case p.File == nil:
		return ""
	case p.Wide:
		return "agents are given your own key, as nothing narrower is to be had (" + p.Why + "): see docs/how-to/rights.md"
	}
	return "agents are given a session for this task alone, until " + p.Until.Local().Format(time.DateTime)
}

// found says which clouds this machine has a sign-in for, by what lies where their
// tools look first; whether it is good the trial of the store tells.
func found() (lines []string) {
	there := func(env, inHome string) bool {
		home, err := os.UserHomeDir()
		if os.Getenv(env) != "" || err != nil {
			return os.Getenv(env) != ""
		}
		_, err = os.Stat(filepath.Join(home, inHome))
		return err == nil
	}
	if there("AWS_ACCESS_KEY_ID", ".aws/credentials") || there("AWS_PROFILE", ".aws/config") {
		lines = append(lines, "s3://bucket/prefix, as you are signed in to AWS here; another server's: s3://bucket/prefix?endpoint=http://host:9000")
	}
	if there("GOOGLE_APPLICATION_CREDENTIALS", ".config/gcloud/application_default_credentials.json") {
		lines = append(lines, "gs://bucket/prefix, as you are signed in to Google Cloud here")
	}
	return lines
}

// openPlace opens a bucket of anybody's, for whatever names are in it.
func openPlace(ctx context.Context, place, endpoint string, say func(string)) (store.Bucket, error) {
	unsigned := func() { say("no credentials found: " + place + " is asked without, as a public bucket") }
	switch scheme, _, _ := strings.Cut(place, "://"); scheme {
	case "s3":
		b, err := s3.Open(ctx, place, s3.Options{Endpoint: endpoint, Foreign: true, Unsigned: unsigned})
		if err != nil {
			return nil, err
		}
		return weather(b), nil
	case "gs":
		bucket, query, _ := strings.Cut(place, "?")
		o := gcs.Options{Endpoint: endpoint, Foreign: true, Unsigned: unsigned}
		if err := askedOf(query, &o); err != nil {
			return nil, err
		}
		b, err := gcs.Open(ctx, bucket, o)
		if err != nil {
			return nil, err
		}
		return weather(b), nil
	}
	b, _, err := openBucket(ctx, place, "")
	return b, err
}

// askedOf reads what stands behind a gs:// URL, as store/s3 reads its own.
func askedOf(query string, o *gcs.Options) error {
	values, err := url.ParseQuery(query)
	for name, v := range values {
		switch value := v[len(v)-1]; name {
		case "endpoint":
			o.Endpoint = value
		case "project":
			o.Project = value
		case "anonymous":
			o.Anonymous = value != "false"
		default:
			err = errors.New("there are endpoint, project and anonymous")
		}
	}
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "Write it as gs://bucket/folder?anonymous=true.", "read ?%s", query)
	}
	return nil
}
