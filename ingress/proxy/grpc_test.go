package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/toyproxy/toyproxy/ingress"
)

// grpcEndpoint has a unary call that fails with details, and a stream that sends each
// message back at once; both set trailers.
func grpcEndpoint(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "toy.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Say", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var in wrapperspb.StringValue
			if err := decode(&in); err != nil {
				return nil, err
			}
			_ = grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", "unary"))
			if in.Value == "fail" {
				return nil, status.Error(codes.FailedPrecondition, "as asked")
			}
			return &in, nil
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Talk", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			s.SetTrailer(metadata.Pairs("x-trailer", "stream"))
			for {
				var in wrapperspb.StringValue
				if err := s.RecvMsg(&in); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if err := s.SendMsg(&in); err != nil {
					return err
				}
			}
		}}},
	}, nil)
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(s.Stop)
	return ln.Addr().String()
}

func TestGRPC(t *testing.T) {
	l := newLab(t, Options{})
	l.serve("grpc", []string{grpcEndpoint(t)}, speaks("grpc"))
	l.serve("none", nil, speaks("grpc"))
	l.apply([]ingress.Route{route("grpc.example", "grpc"), route("none.example", "none")})
	for name, dial := range map[string]func(authority string) (*grpc.ClientConn, error){
		"h2c": func(authority string) (*grpc.ClientConn, error) {
			return grpc.NewClient(l.addr(80), grpc.WithAuthority(authority), grpc.WithTransportCredentials(insecure.NewCredentials()))
		},
		"TLS": func(authority string) (*grpc.ClientConn, error) {
			return grpc.NewClient(l.addr(443), grpc.WithAuthority(authority), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := dial("grpc.example")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			unary(t, c)
			stream(t, c)
			gone, err := dial("none.example")
			if err != nil {
				t.Fatal(err)
			}
			defer gone.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := gone.Invoke(ctx, "/toy.Echo/Say", wrapperspb.String("x"), &wrapperspb.StringValue{}); status.Code(err) != codes.Unavailable {
				t.Errorf("without endpoints: %v", err)
			}
		})
	}
}

func unary(t *testing.T, c *grpc.ClientConn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var out wrapperspb.StringValue
	var trailer metadata.MD
	if err := c.Invoke(ctx, "/toy.Echo/Say", wrapperspb.String("hello"), &out, grpc.Trailer(&trailer)); err != nil || out.Value != "hello" {
		t.Errorf("unary: %q, %v", out.Value, err)
	}
	if got := trailer.Get("x-trailer"); len(got) != 1 || got[0] != "unary" {
		t.Errorf("trailer of unary: %v", trailer)
	}
	err := c.Invoke(ctx, "/toy.Echo/Say", wrapperspb.String("fail"), &out, grpc.Trailer(&trailer))
	if status.Code(err) != codes.FailedPrecondition || status.Convert(err).Message() != "as asked" || len(trailer.Get("x-trailer")) != 1 {
		t.Errorf("a call that fails: %v, %v", err, trailer)
	}
}

// stream sends a message only once the one before came back: both directions are open at once.
func stream(t *testing.T, c *grpc.ClientConn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	s, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/toy.Echo/Talk")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two", "three"} {
		if err := s.SendMsg(wrapperspb.String(text)); err != nil {
			t.Fatal(err)
		}
		var out wrapperspb.StringValue
		if err := s.RecvMsg(&out); err != nil || out.Value != text {
			t.Fatalf("stream: %q, %v", out.Value, err)
		}
	}
	_ = s.CloseSend()
	if err := s.RecvMsg(&wrapperspb.StringValue{}); err != io.EOF {
		t.Errorf("end of the stream: %v", err)
	}
	if got := s.Trailer().Get("x-trailer"); len(got) != 1 || got[0] != "stream" {
		t.Errorf("trailer of the stream: %v", s.Trailer())
	}
}
