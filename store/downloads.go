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
	// Downloads gives commands for sh, the best ones first. Each writes the object under key to
	// its standard output by other means than the ones before: the tool of the service, curl,
	// wget, python3. A command may contain an address that opens this one object for a while: it
	// is as good as a credential for it.
	Downloads(ctx context.Context, key string) ([]string, error)
}

// Downloads is Downloader.Downloads, or errors.ErrUnsupported where the bucket is none.
func (s *Store) Downloads(ctx context.Context, key string) (commands []string, err error) {
	d, ok := s.bucket.(Downloader)
	if !ok {
		return nil, fmt.Errorf("say how to download %s from %s: %w", key, s, errors.ErrUnsupported)
	}
	err = s.retryRequest(ctx, "say how to download", key, func() (err error) {
		commands, err = d.Downloads(ctx, key)
		return err
	})
	return commands, err
}

// Fetches are commands for sh, for curl, wget and python3, that write what an address gives to
// their standard output. headers are words for sh, such as "'Accept: text/plain'" or with an
// expansion in double quotes.
func Fetches(address string, headers ...string) []string {
	const python = `import sys, shutil, urllib.request as u; r = u.Request(sys.argv[1], headers=dict(h.split(": ", 1) for h in sys.argv[2:])); shutil.copyfileobj(u.urlopen(r), sys.stdout.buffer)`
	curl, wget, words := "curl -fsSL --retry 3", "wget -q -O -", ""
	for _, h := range headers {
		curl += " -H " + h
		wget += " --header=" + h
		words += " " + h
	}
	address = Quote(address)
	return []string{curl + " " + address, wget + " " + address, "python3 -c " + Quote(python) + " " + address + words}
}

// Quote quotes a word for sh.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
