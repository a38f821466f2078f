package proxy

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/toyproxy/toyproxy/ingress"
)

// certificate makes a pair for a name, whose subject says which one it is.
func certificate(t *testing.T, subject string, names ...string) ingress.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: subject}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return ingress.Certificate{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text}),
	}
}

// shown is the subject of the certificate that a name gets, and the protocol.
func (l *lab) shown(name string, versions ...uint16) (string, error) {
	cfg := &tls.Config{InsecureSkipVerify: true, ServerName: name, NextProtos: []string{"h2", "http/1.1"}}
	if len(versions) > 0 {
		cfg.MinVersion, cfg.MaxVersion = versions[0], versions[0]
	}
	c, err := tls.Dial("tcp", l.addr(443), cfg)
	if err != nil {
		return "", err
	}
	defer c.Close()
	state := c.ConnectionState()
	return state.PeerCertificates[0].Subject.CommonName + ", " + state.NegotiatedProtocol, nil
}

func TestCertificates(t *testing.T) {
	l := newLab(t, Options{})
	routes := []ingress.Route{route("", "web")}
	l.serve("web", []string{endpoint(t, says("web"))})
	exact, wild := certificate(t, "exact", "a.example"), certificate(t, "wild", "*.example")
	l.apply(routes, wild, exact)
	const none = "toyproxy ingress: no certificate for this name"
	for name, want := range map[string]string{"a.example": "exact", "A.EXAMPLE": "exact", "b.example": "wild", "b.c.example": none, "": none} {
		if got, err := l.shown(name); err != nil || got != want+", h2" {
			t.Errorf("%q: %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := l.shown("a.example", tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if got, err := l.shown("a.example", tls.VersionTLS12); err != nil || got != "exact, h2" {
		t.Errorf("TLS 1.2: %q, %v", got, err)
	}
	// A connection that is open goes on while its certificate is replaced; the next one sees the new one.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "a.example"}}}
	get := func() string {
		resp, err := client.Get("https://" + l.addr(443) + "/")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.TLS.PeerCertificates[0].Subject.CommonName
	}
	before := get()
	l.apply(routes, wild, certificate(t, "renewed", "a.example"))
	if after := get(); before != "exact" || after != "exact" {
		t.Errorf("an open connection shows %q, then %q", before, after)
	}
	if got, err := l.shown("a.example"); err != nil || got != "renewed, h2" {
		t.Errorf("after the change: %q, %v", got, err)
	}
}

// TestParsedOnce: a Config that says the same of a certificate does not parse it again.
func TestParsedOnce(t *testing.T) {
	l := newLab(t, Options{})
	cert := certificate(t, "kept", "a.example")
	parsed := func() *tls.Certificate {
		for _, pair := range l.proxy.world.Load().keys.parsed {
			return pair
		}
		return nil
	}
	l.apply(nil, cert)
	first := parsed()
	l.apply(nil, ingress.Certificate{Cert: bytes.Clone(cert.Cert), Key: bytes.Clone(cert.Key)})
	if first == nil || parsed() != first {
		t.Error("parsed again")
	}
	bad := ingress.Config{Ports: []ingress.Port{{Number: 443, TLS: true, Listeners: []ingress.Listener{{Certificates: []ingress.Certificate{{Cert: cert.Cert, Key: []byte("x")}}}}}}}
	if err := l.proxy.Apply(bad); err == nil || !strings.Contains(err.Error(), "certificate of Secret") {
		t.Errorf("a key that is none: %v", err)
	}
	if got, err := l.shown("a.example"); err != nil || !strings.HasPrefix(got, "toyproxy ingress") {
		t.Errorf("with a key that is none: %q, %v", got, err)
	}
}

// TestPlainOnTLS: who speaks HTTP to the port of HTTPS is told so.
func TestPlainOnTLS(t *testing.T) {
	l := newLab(t, Options{})
	l.apply(nil)
	c, err := net.Dial("tcp", l.addr(443))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if text, _ := io.ReadAll(c); !strings.HasPrefix(string(text), "HTTP/1.1 400 ") || !strings.Contains(string(text), "https://") {
		t.Errorf("%q", text)
	}
}

// protocols returns clients that speak one protocol each.
func protocols() map[string]*http.Transport {
	only := func(set func(*http.Protocols)) *http.Transport {
		var p http.Protocols
		set(&p)
		return &http.Transport{Protocols: &p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	}
	return map[string]*http.Transport{
		"HTTP/1.1": only(func(p *http.Protocols) { p.SetHTTP1(true) }),
		"HTTP/2.0": only(func(p *http.Protocols) { p.SetHTTP2(true) }),
		"h2c":      only(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }),
	}
}

// TestProtocols: clients and endpoints of every kind meet.
func TestProtocols(t *testing.T) {
	l := newLab(t, Options{})
	h := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Proto+" "+string(body)+" "+r.Header.Get("X-Forwarded-Proto"))
	}
	l.serve("http1", []string{endpoint(t, h)})
	var both http.Protocols
	both.SetUnencryptedHTTP2(true)
	h2c := httptest.NewUnstartedServer(http.HandlerFunc(h))
	h2c.Config.Protocols = &both
	h2c.Start()
	t.Cleanup(h2c.Close)
	l.serve("h2c", []string{h2c.Listener.Addr().String()}, speaks("kubernetes.io/h2c"))
	secure := httptest.NewUnstartedServer(http.HandlerFunc(h))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	l.serve("https", []string{secure.Listener.Addr().String()}, speaks("https"))
	l.apply([]ingress.Route{route("http1", "http1"), route("h2c", "h2c"), route("https", "https")})
	for client, rt := range protocols() {
		t.Cleanup(rt.CloseIdleConnections)
		url, scheme := "http://"+l.addr(80), "http"
		if client == "HTTP/2.0" {
			url, scheme = "https://"+l.addr(443), "https"
		}
		for service, proto := range map[string]string{"http1": "HTTP/1.1", "h2c": "HTTP/2.0", "https": "HTTP/2.0"} {
			r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, url, strings.NewReader("body"))
			r.Host = service
			resp, body := l.send(rt, r)
			if want := proto + " body " + scheme; resp.StatusCode != 200 || body != want {
				t.Errorf("%s to %s: %d %q, want %q", client, service, resp.StatusCode, body, want)
			}
		}
	}
}

// speaks sets the appProtocol of a Service's port.
func speaks(protocol string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = &protocol }
}
