package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// message is what every call takes and gives: no generated code is needed for it.
type message = wrapperspb.BytesValue

// ended counts calls whose context ended before they did, by why.
var ended struct{ cancelled, late atomic.Int64 }

// serveGRPC is a gRPC server; a line `ended` on standard input prints how many calls were given up, and for what.
func serveGRPC(arguments []string) {
	flags := flag.NewFlagSet("grpc-serve", flag.ExitOnError)
	address := flags.String("address", "", "where to listen")
	certificate := flags.String("cert", "", "the chain, where it is TLS")
	key := flags.String("key", "", "its key")
	must(flags.Parse(arguments))

	listener, err := net.Listen("tcp", *address)
	must(err)
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(16 << 20), grpc.MaxSendMsgSize(16 << 20)}
	if *certificate != "" {
		trust, err := credentials.NewServerTLSFromFile(*certificate, *key)
		must(err)
		options = append(options, grpc.Creds(trust))
	}
	server := grpc.NewServer(options...)
	server.RegisterService(&service, nil)
	go func() { must(server.Serve(listener)) }()
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		if input.Text() == "ended" {
			fmt.Printf("%d cancelled, %d late\n", ended.cancelled.Load(), ended.late.Load())
		}
	}
}

var service = grpc.ServiceDesc{
	ServiceName: "peers.Peer",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		{MethodName: "Echo", Handler: unary(echoCall)},
		{MethodName: "Fail", Handler: unary(fail)},
		{MethodName: "Sleep", Handler: unary(sleep)},
	},
	Streams: []grpc.StreamDesc{
		{StreamName: "Count", Handler: count, ServerStreams: true},
		{StreamName: "Sum", Handler: sum, ClientStreams: true},
		{StreamName: "Talk", Handler: talk, ClientStreams: true, ServerStreams: true},
		{StreamName: "Die", Handler: die, ServerStreams: true},
	},
}

func unary(call func(context.Context, *message) (*message, error)) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		request := new(message)
		if err := decode(request); err != nil {
			return nil, err
		}
		return call(ctx, request)
	}
}

// echoCall gives the message back, and its metadata in both places.
func echoCall(ctx context.Context, request *message) (*message, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
	back := metadata.MD{}
	for name, values := range sent {
		if strings.HasPrefix(name, "x-") {
			back[name] = values
		}
	}
	_ = grpc.SetHeader(ctx, back)
	_ = grpc.SetTrailer(ctx, metadata.Join(back, metadata.Pairs("x-ends-bin", "\x00\x01\xfe\xff")))
	return request, nil
}

func fail(_ context.Context, request *message) (*message, error) {
	answer := status.New(codes.FailedPrecondition, "not so: 100 % «"+string(request.Value)+"»")
	detailed, err := answer.WithDetails(&errdetails.ErrorInfo{Reason: "WRONG", Domain: "peers.test"})
	if err != nil {
		return nil, err
	}
	return nil, detailed.Err()
}

// sleep ends when the client gives up, or its deadline is over. It says whether there is one.
func sleep(ctx context.Context, _ *message) (*message, error) {
	if _, has := ctx.Deadline(); has {
		_ = grpc.SendHeader(ctx, metadata.Pairs("x-deadline", "yes"))
	}
	select {
	case <-ctx.Done():
		if ctx.Err() == context.DeadlineExceeded {
			ended.late.Add(1)
		} else {
			ended.cancelled.Add(1)
		}
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-time.After(20 * time.Second):
		return new(message), nil
	}
}

func count(_ any, stream grpc.ServerStream) error {
	request := new(message)
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	for number := range 1000 {
		if err := stream.SendMsg(wrapperspb.Bytes(fmt.Appendf(nil, "%s %d", request.Value, number))); err != nil {
			return err
		}
	}
	return nil
}

func sum(_ any, stream grpc.ServerStream) error {
	messages, size := 0, 0
	for {
		request := new(message)
		err := stream.RecvMsg(request)
		if err == io.EOF {
			return stream.SendMsg(wrapperspb.Bytes(fmt.Appendf(nil, "%d %d", messages, size)))
		}
		if err != nil {
			return err
		}
		messages++
		size += len(request.Value)
	}
}

func talk(_ any, stream grpc.ServerStream) error {
	for {
		request := new(message)
		err := stream.RecvMsg(request)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = stream.SendMsg(request)
		}
		if err != nil {
			ended.cancelled.Add(1)
			return err
		}
	}
}

// die ends the whole server in the middle of a stream.
func die(_ any, stream grpc.ServerStream) error {
	for range 3 {
		if err := stream.SendMsg(wrapperspb.Bytes([]byte("still here"))); err != nil {
			return err
		}
	}
	time.Sleep(200 * time.Millisecond)
	os.Exit(3)
	return nil
}
