package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const largeMessage = 12 << 20

// askGRPC makes one call of each kind over one connection; with `-die` the last, after which the server is gone.
func askGRPC(arguments []string) {
	flags := flag.NewFlagSet("grpc-client", flag.ExitOnError)
	address := flags.String("address", "", "host and port")
	authority := flags.String("ca", "", "the root to trust; without it there is no TLS")
	isDeadly := flags.Bool("die", false, "end the server as well")
	must(flags.Parse(arguments))

	trust := insecure.NewCredentials()
	if *authority != "" {
		var err error
		trust, err = credentials.NewClientTLSFromFile(*authority, "")
		must(err)
	}
	connection, err := grpc.NewClient("passthrough:///"+*address, grpc.WithTransportCredentials(trust),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20), grpc.MaxCallSendMsgSize(16<<20)))
	must(err)
	calls := []struct {
		name string
		call func(context.Context, *grpc.ClientConn) error
	}{
		{"unary", callUnary}, {"metadata", callMetadata}, {"large", callLarge}, {"status", callFail},
		{"unknown", callUnknown}, {"server stream", callCount}, {"client stream", callSum}, {"both", callTalk},
		{"deadline", callDeadline}, {"cancel", callCancel}, {"cancel in the middle", callCancelTalk}, {"many", callMany},
	}
	if *isDeadly {
		calls = append(calls[:1:1], struct {
			name string
			call func(context.Context, *grpc.ClientConn) error
		}{"die", callDie})
	}
	failed := failures{}
	done := 0
	for _, kind := range calls {
		ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
		if err := kind.call(ctx, connection); err != nil {
			failed[kind.name+": "+err.Error()]++
		} else {
			done++
		}
		stop()
	}
	report(done, failed)
}

func invoke(ctx context.Context, connection *grpc.ClientConn, method string, body []byte, options ...grpc.CallOption) ([]byte, error) {
	answer := new(message)
	err := connection.Invoke(ctx, "/peers.Peer/"+method, wrapperspb.Bytes(body), answer, options...)
	return answer.Value, err
}

func open(ctx context.Context, connection *grpc.ClientConn, method string, client, server bool) (grpc.ClientStream, error) {
	description := &grpc.StreamDesc{StreamName: method, ClientStreams: client, ServerStreams: server}
	return connection.NewStream(ctx, description, "/peers.Peer/"+method)
}

func expectStatus(err error, code codes.Code) error {
	if status.Code(err) != code {
		return fmt.Errorf("%v instead of %v", err, code)
	}
	return nil
}

func callUnary(ctx context.Context, connection *grpc.ClientConn) error {
	answer, err := invoke(ctx, connection, "Echo", []byte("hello"))
	if err == nil && string(answer) != "hello" {
		err = fmt.Errorf("%q", answer)
	}
	return err
}

func callMetadata(ctx context.Context, connection *grpc.ClientConn) error {
	binary := "\x00\x01\x02, \xfe\xff"
	ctx = metadata.AppendToOutgoingContext(ctx, "x-word", "one", "x-word", "two", "x-data-bin", binary)
	var header, trailer metadata.MD
	if _, err := invoke(ctx, connection, "Echo", nil, grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
		return err
	}
	for _, back := range []metadata.MD{header, trailer} {
		words, data := back.Get("x-word"), back.Get("x-data-bin")
		if fmt.Sprint(words) != "[one two]" || len(data) != 1 || data[0] != binary {
			return fmt.Errorf("back came %q and %q", header, trailer)
		}
	}
	if ends := trailer.Get("x-ends-bin"); len(ends) != 1 || ends[0] != "\x00\x01\xfe\xff" {
		return fmt.Errorf("the trailer is %q", ends)
	}
	return nil
}

func callLarge(ctx context.Context, connection *grpc.ClientConn) error {
	body := bytesOf(largeMessage)
	answer, err := invoke(ctx, connection, "Echo", body)
	if err == nil && !bytes.Equal(answer, body) {
		err = fmt.Errorf("%d bytes that are others", len(answer))
	}
	return err
}

func callFail(ctx context.Context, connection *grpc.ClientConn) error {
	_, err := invoke(ctx, connection, "Fail", []byte("ü"))
	told, _ := status.FromError(err)
	if told.Message() != "not so: 100 % «ü»" || len(told.Details()) != 1 {
		return fmt.Errorf("%v with %v", err, told.Details())
	}
	if info, ok := told.Details()[0].(*errdetails.ErrorInfo); !ok || info.Reason != "WRONG" {
		return fmt.Errorf("the details are %v", told.Details())
	}
	return expectStatus(err, codes.FailedPrecondition)
}

func callUnknown(ctx context.Context, connection *grpc.ClientConn) error {
	_, err := invoke(ctx, connection, "Nobody", nil)
	return expectStatus(err, codes.Unimplemented)
}

func callCount(ctx context.Context, connection *grpc.ClientConn) error {
	stream, err := open(ctx, connection, "Count", false, true)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(wrapperspb.Bytes([]byte("number"))); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for number := 0; ; number++ {
		answer := new(message)
		err := stream.RecvMsg(answer)
		if err == io.EOF && number == 1000 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d: %w", number, err)
		}
		if string(answer.Value) != fmt.Sprintf("number %d", number) {
			return fmt.Errorf("%q in place %d", answer.Value, number)
		}
	}
}

func callSum(ctx context.Context, connection *grpc.ClientConn) error {
	stream, err := open(ctx, connection, "Sum", true, false)
	if err != nil {
		return err
	}
	for number := range 1000 {
		if err := stream.SendMsg(wrapperspb.Bytes(bytesOf(number))); err != nil {
			return err
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	answer := new(message)
	err = stream.RecvMsg(answer)
	if err == nil && string(answer.Value) != "1000 499500" {
		err = fmt.Errorf("%q", answer.Value)
	}
	return err
}

// callTalk sends the next message when the one before is back.
func callTalk(ctx context.Context, connection *grpc.ClientConn) error {
	stream, err := open(ctx, connection, "Talk", true, true)
	if err != nil {
		return err
	}
	for number := range 200 {
		if err := exchange(stream, bytesOf(number*100)); err != nil {
			return fmt.Errorf("after %d: %w", number, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(new(message)); err != io.EOF {
		return fmt.Errorf("it ended with %w", err)
	}
	return nil
}

func exchange(stream grpc.ClientStream, body []byte) error {
	if err := stream.SendMsg(wrapperspb.Bytes(body)); err != nil {
		return err
	}
	answer := new(message)
	if err := stream.RecvMsg(answer); err != nil {
		return err
	}
	if !bytes.Equal(answer.Value, body) {
		return fmt.Errorf("%d bytes that are others", len(answer.Value))
	}
	return nil
}

func callDeadline(ctx context.Context, connection *grpc.ClientConn) error {
	ctx, stop := context.WithTimeout(ctx, 400*time.Millisecond)
	defer stop()
	var header metadata.MD
	_, err := invoke(ctx, connection, "Sleep", nil, grpc.Header(&header))
	if len(header.Get("x-deadline")) == 0 {
		return fmt.Errorf("the server knows no deadline: %v", err)
	}
	// A server whose clock is first resets the stream, and then that is what the client hears of.
	if status.Code(err) == codes.Internal {
		return nil
	}
	return expectStatus(err, codes.DeadlineExceeded)
}

func callCancel(ctx context.Context, connection *grpc.ClientConn) error {
	ctx, stop := context.WithCancel(ctx)
	time.AfterFunc(200*time.Millisecond, stop)
	_, err := invoke(ctx, connection, "Sleep", nil)
	return expectStatus(err, codes.Canceled)
}

func callCancelTalk(ctx context.Context, connection *grpc.ClientConn) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := open(ctx, connection, "Talk", true, true)
	if err != nil {
		return err
	}
	if err := exchange(stream, []byte("one")); err != nil {
		return err
	}
	stop()
	return expectStatus(stream.RecvMsg(new(message)), codes.Canceled)
}

// callMany has more calls under way than a server takes streams, and a failure among them ends none of the others.
func callMany(ctx context.Context, connection *grpc.ClientConn) error {
	const calls = 500
	results := make(chan error, calls)
	for number := range calls {
		go func() {
			if number%10 == 0 {
				results <- callFail(ctx, connection)
				return
			}
			body := bytesOf(number * 50)
			answer, err := invoke(ctx, connection, "Echo", body)
			if err == nil && !bytes.Equal(answer, body) {
				err = fmt.Errorf("%d bytes that are others", len(answer))
			}
			results <- err
		}()
	}
	for range calls {
		if err := <-results; err != nil {
			return err
		}
	}
	return nil
}

// callDie is answered by a server that ends in the middle. The client must see that it was no end, and that the server
// cannot be reached: UNAVAILABLE, as without a proxy between the two.
func callDie(ctx context.Context, connection *grpc.ClientConn) error {
	stream, err := open(ctx, connection, "Die", false, true)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(new(message)); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for range 3 {
		if err := stream.RecvMsg(new(message)); err != nil {
			return fmt.Errorf("too early: %w", err)
		}
	}
	err = stream.RecvMsg(new(message))
	if status.Code(err) == codes.Unavailable {
		return nil
	}
	return fmt.Errorf("it ended with %w", err)
}
