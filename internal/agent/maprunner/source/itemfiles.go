package source

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/transfer"
)

// Files that items name were stored when the job was submitted, where its agents do
// not see them. The cache brings them as it does what is fetched, and the program is
// told of the item as if the submitting machine had them there: only results, logs and
// the names of outputs have the item's own text. With --fetch it is told of them as of
// all that was fetched.

// What the cache calls a file begins with one of these. In that of an address stands
// what opens its bucket, up to placeEnd, before the address itself.
const (
	addressMark = "@"
	storedMark  = "#"
	placeEnd    = "\n"
)

// storedName is what the cache calls a stored file when its item says that it is called
// text.
func storedName(f manifest.File, text string) string {
	exec := ""
	if f.Exec {
		exec = "x"
	}
	return fmt.Sprintf("%s%s:%d:%s:%s:%d:%s", storedMark, f.Blob, f.Size, exec, f.Pack, f.Off, filepath.Base(input.PathOf(text)))
}

// bucketOpener is what opens the bucket of an address, as the giver of the item has it; "": its
// name alone does.
func (s *Source) bucketOpener(address string) string {
	if !input.IsBucket(address) {
		return ""
	}
	bucket, _, err := transfer.Split(address)
	if err != nil {
		return "" // the fetch says why
	}
	bucket, _, _ = strings.Cut(bucket, "?")
	if place := input.PlaceOf(s.places, bucket); place != bucket {
		return place
	}
	return ""
}

// wholeItem stands for a plain line where fields of others are meant.
const wholeItem = -1

// fetches are the fields that may name files: those that the command uses, or all when
// it uses none.
func fetches(fields []string, used []int) []int {
	switch {
	case len(fields) == 0:
		return []int{wholeItem}
	case len(used) > 0:
		return used
	}
	all := make([]int, len(fields))
	for i := range fields {
		all[i] = i
	}
	return all
}

// namedFields are those of a source's fields that name a file in this item: a line does, and
// what is an address in a row.
func (s *Source) namedFields(it manifest.Item) (fields []int) {
	for _, f := range s.fetches {
		if slices.ContainsFunc(it.Files, func(file manifest.File) bool { return file.Field == f }) {
			continue
		}
		if f == wholeItem || f < len(it.Fields) && input.IsAddress(it.Fields[f]) {
			fields = append(fields, f)
		}
	}
	return fields
}

// FileNames are the names of an item's files: those that were stored, and then addresses.
func (s *Source) FileNames(it manifest.Item) (names []string) {
	for _, f := range it.Files {
		names = append(names, storedName(f, s.fieldText(it, f.Field)))
	}
	for _, f := range s.namedFields(it) {
		names = append(names, addressMark+s.bucketOpener(s.fieldText(it, f))+placeEnd+s.fieldText(it, f))
	}
	return names
}

// fieldText is the text of a field.
func (s *Source) fieldText(it manifest.Item, field int) string {
	switch {
	case field == wholeItem:
		return it.Text
	case field < len(it.Fields):
		return it.Fields[field]
	}
	return ""
}

// ProvidedFile is a file that an item was given.
type ProvidedFile struct {
	field int // wholeItem of a line
	file  string
}

// ProvidedFiles are the files that an item was given: those that were stored, and those that
// were fetched. paths are in the order of FileNames.
func (s *Source) ProvidedFiles(it manifest.Item, paths []string) (stored, fetched []ProvidedFile) {
	for i, f := range it.Files {
		stored = append(stored, ProvidedFile{f.Field, paths[i]})
	}
	for i, f := range s.namedFields(it) {
		fetched = append(fetched, ProvidedFile{f, paths[len(it.Files)+i]})
	}
	return stored, fetched
}

// ItemWithFiles is an item with files in some fields.
func (s *Source) ItemWithFiles(it manifest.Item, files []ProvidedFile) manifest.Item {
	for i, p := range files {
		if p.field == wholeItem {
			it.Text = p.file
			continue
		}
		if i == 0 {
			it.Fields = append([]string(nil), it.Fields...)
		}
		it.Fields[p.field] = p.file
	}
	return it
}

// filesForProgram is how a program that stays is told of files: by name of their field, or the
// one of a line.
func (s *Source) filesForProgram(files []ProvidedFile) any {
	if files[0].field == wholeItem {
		return files[0].file
	}
	by := map[string]string{}
	for _, f := range files {
		by[s.fields[f.field]] = f.file
	}
	return by
}

// ItemWithStored is an item with what was stored in the place of what names it: in its
// fields, and in its text as its format has it.
func (s *Source) ItemWithStored(it manifest.Item, all []ProvidedFile) (manifest.Item, error) {
	if len(all) == 0 {
		return it, nil
	}
	text := it.Text
	it = s.ItemWithFiles(it, all)
	var err error
	switch {
	case it.Text != text: // a plain line
	case s.Format == manifest.CSV:
		it.Text, err = row(it.Fields)
	case s.Format == manifest.JSONL:
		it.Text, err = s.replaceValues(text, all)
	}
	if err != nil {
		return it, fault.Wrap(err, fault.Invalid, "", "put files into item %d", it.N)
	}
	return it, nil
}

// row is a line of CSV.
func row(fields []string) (string, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	err := w.Write(fields)
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n"), errors.Join(err, w.Error())
}

// replaceValues is a line of JSON with other values for some of its keys; all else is as
// written, in the order of the keys.
func (s *Source) replaceValues(text string, files []ProvidedFile) (string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return "", err
	}
	for _, p := range files {
		value, err := appendJSON(nil, p.file)
		if err != nil {
			return "", err
		}
		object[s.fields[p.field]] = value
	}
	b, err := appendJSON(nil, object)
	return string(b), err
}
