// Command stream squares numbers in worker processes, in the ways that drover's stream
// processes are measured beside. Nothing is kept, and a worker that dies is not replaced.
//
//	stream -proto pipe -items 100000 -workers 2
//
// pipe sends JSON lines over bare pipes, both sides with buffers that are emptied when
// there is nothing more to do. grpc makes a unary call for each item, as many at once as
// the window has room for; bidi has one stream of messages for each worker. Both of these
// carry protobuf's own wrapper types over a unix socket, by the generated codec.
//
// With -worker drover it is a program for `drover map --stream`.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
)

// item is one number to be squared, and its answer.
type item struct {
	N     int    `json:"n"`
	Value string `json:"value"`
}

type answer struct {
	N      int `json:"n"`
	Result int `json:"result"`
}

func square(value string) int {
	v, err := strconv.Atoi(value)
	must(err)
	return v * v
}

func main() {
	proto := flag.String("proto", "pipe", "pipe, grpc or bidi")
	items := flag.Int("items", 100_000, "how many")
	workers := flag.Int("workers", 2, "processes")
	window := flag.Int("window", 64, "items that a worker has at once")
	worker := flag.String("worker", "", "be a worker: pipe, drover, grpc or bidi, the last two at -address")
	address := flag.String("address", "", "of a worker's socket")
	flag.Parse()
	work := map[string]func(){"pipe": workPipe, "drover": workDrover, "grpc": func() { serveSquares(*address) }, "bidi": func() { serveSquares(*address) }}
	if *worker != "" {
		work[*worker]()
		return
	}
	hire := map[string]func(window int) *hand{"pipe": hirePipe, "grpc": hireCalls, "bidi": hireStream}[*proto]
	feed := make(chan item, *window**workers)
	go func() {
		for n := 1; n <= *items; n++ {
			feed <- item{n, strconv.Itoa(n)}
		}
		close(feed)
	}()
	var all sync.WaitGroup
	answered := make([]int, *workers)
	for i := range *workers {
		all.Go(func() {
			h := hire(*window)
			answered[i] = h.exchange(feed)
			h.dismiss()
		})
	}
	all.Wait()
	total := 0
	for _, n := range answered {
		total += n
	}
	if total != *items {
		must(fmt.Errorf("%d of %d items were answered", total, *items))
	}
}

// hand is a worker process, and how it is talked to.
type hand struct {
	exchange func(feed <-chan item) (answered int)
	dismiss  func()
}

// start starts this program as a worker.
func start(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Stderr = os.Stderr
	return c
}

// check looks at an answer: a quick and wrong one is none.
func check(a answer) {
	if a.Result != a.N*a.N {
		must(fmt.Errorf("item %d was answered with %d", a.N, a.Result))
	}
}

// stream sends items while there is room in the window, and takes answers.
func stream(window int, feed <-chan item, send func(item) error, flush func() error, receive func() (answer, error)) (answered int) {
	room := make(chan struct{}, window)
	sent := make(chan int)
	go func() {
		n := 0
		for it := range feed {
			select {
			case room <- struct{}{}:
			default:
				must(flush())
				room <- struct{}{}
			}
			must(send(it))
			n++
		}
		must(flush())
		sent <- n
	}()
	for most := -1; most < 0 || answered < most; {
		select {
		case most = <-sent:
			continue
		case <-room:
		}
		a, err := receive()
		must(err)
		check(a)
		answered++
	}
	return answered
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
