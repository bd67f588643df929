package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	callName   = "/bench.Squares/Square"
	streamName = "/bench.Squares/All"
)

// squares is what protoc would have written, for
//
//	rpc Square(google.protobuf.StringValue) returns (google.protobuf.Int64Value);
//	rpc All(stream google.protobuf.StringValue) returns (stream google.protobuf.Int64Value);
var squares = grpc.ServiceDesc{
	ServiceName: "bench.Squares",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Square", Handler: func(_ any, _ context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var in wrapperspb.StringValue
		if err := read(&in); err != nil {
			return nil, err
		}
		return wrapperspb.Int64(int64(square(in.Value))), nil
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "All", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
		var in wrapperspb.StringValue
		for {
			if err := s.RecvMsg(&in); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := s.SendMsg(wrapperspb.Int64(int64(square(in.Value)))); err != nil {
				return err
			}
		}
	}}},
}

// serveSquares says that it listens, and ends with standard input.
func serveSquares(address string) {
	l, err := net.Listen("unix", address)
	must(err)
	g := grpc.NewServer()
	g.RegisterService(&squares, nil)
	go func() { must(g.Serve(l)) }()
	_, err = os.Stdout.WriteString("!")
	must(err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	g.Stop()
}

// employ starts a worker that serves, and connects to it.
func employ() (conn *grpc.ClientConn, dismiss func()) {
	dir, err := os.MkdirTemp("", "stream")
	must(err)
	path := filepath.Join(dir, "s")
	c := start("-worker", "grpc", "-address", path)
	in, err := c.StdinPipe()
	must(err)
	out, err := c.StdoutPipe()
	must(err)
	must(c.Start())
	_, err = out.Read(make([]byte, 1))
	must(err)
	conn, err = grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	return conn, func() {
		must(conn.Close())
		must(in.Close())
		must(c.Wait())
		must(os.RemoveAll(dir))
	}
}

// hireCalls is a call for each item, some at once.
func hireCalls(window int) *hand {
	conn, dismiss := employ()
	return &hand{dismiss: dismiss, exchange: func(feed <-chan item) int {
		var calls sync.WaitGroup
		var answered atomic.Int64
		for range window {
			calls.Go(func() {
				for it := range feed {
					var out wrapperspb.Int64Value
					must(conn.Invoke(context.Background(), callName, wrapperspb.String(it.Value), &out))
					check(answer{it.N, int(out.Value)})
					answered.Add(1)
				}
			})
		}
		calls.Wait()
		return int(answered.Load())
	}}
}

// hireStream is one stream of messages, with answers that come in order.
func hireStream(window int) *hand {
	conn, dismiss := employ()
	return &hand{dismiss: dismiss, exchange: func(feed <-chan item) int {
		s, err := conn.NewStream(context.Background(), &squares.Streams[0], streamName)
		must(err)
		order := make(chan int, window+1)
		send := func(it item) error {
			order <- it.N
			return s.SendMsg(wrapperspb.String(it.Value))
		}
		return stream(window, feed, send, func() error { return nil }, func() (answer, error) {
			var out wrapperspb.Int64Value
			err := s.RecvMsg(&out)
			return answer{<-order, int(out.Value)}, err
		})
	}}
}
