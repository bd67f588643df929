package main

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
)

const buffer = 64 << 10

func hirePipe(window int) *hand {
	c := start("-worker", "pipe")
	in, err := c.StdinPipe()
	must(err)
	out, err := c.StdoutPipe()
	must(err)
	must(c.Start())
	w, r := bufio.NewWriterSize(in, buffer), bufio.NewReaderSize(out, buffer)
	to, from := json.NewEncoder(w), json.NewDecoder(r)
	return &hand{
		exchange: func(feed <-chan item) int {
			return stream(window, feed, func(it item) error { return to.Encode(it) }, w.Flush, func() (a answer, err error) {
				err = from.Decode(&a)
				return a, err
			})
		},
		dismiss: func() {
			must(in.Close())
			must(c.Wait())
		},
	}
}

func workPipe() {
	r, w := bufio.NewReaderSize(os.Stdin, buffer), bufio.NewWriterSize(os.Stdout, buffer)
	to := json.NewEncoder(w)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		var it item
		must(json.Unmarshal(line, &it))
		must(to.Encode(answer{it.N, square(it.Value)}))
		if r.Buffered() == 0 {
			must(w.Flush())
		}
	}
}

// workDrover is a program for `drover map --stream`, by the protocol of
// docs/how-to/stream.md.
func workDrover() {
	c, err := net.Dial("unix", os.Getenv("DROVER_SOCK"))
	must(err)
	to, from := json.NewEncoder(c), json.NewDecoder(bufio.NewReaderSize(c, buffer))
	type request struct {
		Done []answer `json:"done,omitempty"`
		Want int      `json:"want"`
	}
	var given struct {
		Items []item `json:"items"`
		End   bool   `json:"end"`
	}
	q := request{Want: 1}
	for {
		q.Done = q.Done[:0]
		for _, it := range given.Items {
			q.Done = append(q.Done, answer{it.N, square(it.Value)})
		}
		must(to.Encode(q))
		q.Want = 512
		given.Items = given.Items[:0]
		must(from.Decode(&given))
		if given.End {
			return
		}
	}
}
