package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Downloader is a method that a Bucket may have in addition: it says how a machine reads one
// object that has nothing but the means of its image.
type Downloader interface {
	// Downloads gives ways to read the object under key, the best ones first.
	Downloads(ctx context.Context, key string) ([]Download, error)
}

// Download is one way for a machine to read an object.
type Download struct {
	Tool    string // the program that the machine must have: curl, wget, python3, the tool of the service
	Command string // for sh; it writes the object to its standard output
	// Secret says that the command contains an address which opens this one object for a while, and is
	// as good as a credential for it. Other commands use what the machine itself has.
	Secret bool
	// Of is the identity that the command uses: OfContainer, OfMachine; "": none, or the one that its tool finds.
	Of string
}

// Identities that a Download may use.
const (
	OfContainer = "container" // a container's own role
	OfMachine   = "machine"   // that of the whole machine, which its metadata service gives
)

// Downloads is Downloader.Downloads, or errors.ErrUnsupported where the bucket is none.
func (s *Store) Downloads(ctx context.Context, key string) (ways []Download, err error) {
	d, ok := s.bucket.(Downloader)
	if !ok {
		return nil, fmt.Errorf("say how to download %s from %s: %w", key, s, errors.ErrUnsupported)
	}
	err = s.retryRequest(ctx, "say how to download", key, func() (err error) {
		ways, err = d.Downloads(ctx, key)
		return err
	})
	return ways, err
}

// Fetches are the ways by curl, wget and python3 to read what an address gives. headers are words for sh, such as "'Accept: text/plain'" or with an
// expansion in double quotes.
func Fetches(address string, headers ...string) []Download {
	const python = `import sys, shutil, urllib.request as u; r = u.Request(sys.argv[1], headers=dict(h.split(": ", 1) for h in sys.argv[2:])); shutil.copyfileobj(u.urlopen(r), sys.stdout.buffer)`
	curl, wget, words := "curl -fsSL --retry 3", "wget -q -O -", ""
	for _, h := range headers {
		curl += " -H " + h
		wget += " --header=" + h
		words += " " + h
	}
	address = Quote(address)
	return []Download{{Tool: "curl", Command: curl + " " + address}, {Tool: "wget", Command: wget + " " + address},
		{Tool: "python3", Command: "python3 -c " + Quote(python) + " " + address + words}}
}

// Quote quotes a word for sh.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
