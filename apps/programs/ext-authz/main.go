// A server of Envoy's ext_authz: who has the token is anna, everybody else is asked who they are.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	kind "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	failure "google.golang.org/grpc/status"
)

type server struct {
	auth.UnimplementedAuthorizationServer
}

func field(name, value string) *core.HeaderValueOption {
	return &core.HeaderValueOption{Header: &core.HeaderValue{Key: name, Value: value}}
}

func (server) Check(_ context.Context, check *auth.CheckRequest) (*auth.CheckResponse, error) {
	attributes := check.GetAttributes()
	request := attributes.GetRequest().GetHttp()
	switch request.GetPath() {
	case "/broken":
		return nil, failure.Error(codes.Unavailable, "away")
	case "/denied":
		return &auth.CheckResponse{Status: &status.Status{Code: int32(codes.PermissionDenied)}}, nil
	}
	if request.GetHeaders()["authorization"] != "Bearer token" {
		denied := &auth.DeniedHttpResponse{
			Status:  &kind.HttpStatus{Code: kind.StatusCode_Unauthorized},
			Headers: []*core.HeaderValueOption{field("WWW-Authenticate", "Bearer")},
			Body:    "who are you",
		}
		return &auth.CheckResponse{
			Status:       &status.Status{Code: int32(codes.Unauthenticated)},
			HttpResponse: &auth.CheckResponse_DeniedResponse{DeniedResponse: denied},
		}, nil
	}
	source := attributes.GetSource().GetAddress().GetSocketAddress()
	seen := fmt.Sprintf("%s %s %s %s %d %s", request.GetMethod(), request.GetPath(), request.GetHost(), request.GetScheme(),
		len(request.GetRawBody()), source.GetAddress())
	allowed := &auth.OkHttpResponse{
		Headers:              []*core.HeaderValueOption{field("X-User", "anna"), field("X-Seen", seen)},
		ResponseHeadersToAdd: []*core.HeaderValueOption{field("Set-Cookie", "seen=1")},
	}
	return &auth.CheckResponse{
		Status:       &status.Status{Code: int32(codes.OK)},
		HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: allowed},
	}, nil
}

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	calls := grpc.NewServer()
	auth.RegisterAuthorizationServer(calls, server{})
	log.Fatal(calls.Serve(listener))
}
