package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/drover-run/drover/store"
)

// maxList bounds the list of a tree that is read back: some ten million names.
const maxList = 2 << 30

// PutTree stores a tree's list as a blob, whose digest then names the tree.
// Its files' blobs were stored by Save.
func PutTree(ctx context.Context, b Blobs, t Tree) (store.Digest, error) {
	list, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("store list of files: %w", err)
	}
	d, _, err := b.PutBlob(ctx, bytes.NewReader(list))
	return d, err
}

// LoadTree reads and checks the list that d names. store.ErrNotExist when it is
// not there.
func LoadTree(ctx context.Context, b Blobs, d store.Digest) (Tree, error) {
	var t Tree
	r, err := b.OpenBlob(ctx, d)
	if err != nil {
		return t, fmt.Errorf("read list of files: %w", err)
	}
	defer r.Close()
	list, err := io.ReadAll(io.LimitReader(r, maxList+1)) // to io.EOF, where the digest is checked
	if err != nil {
		return t, fmt.Errorf("read list of files: %w", err)
	}
	if len(list) > maxList {
		return t, fmt.Errorf("read list of files: longer than %d bytes", maxList)
	}
	if err := json.Unmarshal(list, &t); err != nil {
		return t, fmt.Errorf("read list of files: %w", err)
	}
	return t, t.Check()
}
