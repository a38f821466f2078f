package ingress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// secret makes a Secret with a certificate for some names.
func secret(t *testing.T, name string, names ...string) *corev1.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cn.example"}, DNSNames: names, NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}),
	}}
}

// withTLS adds an entry of spec.tls.
func withTLS(o *networkingv1.Ingress, secret string, hosts ...string) *networkingv1.Ingress {
	o.Spec.TLS = append(o.Spec.TLS, networkingv1.IngressTLS{SecretName: secret, Hosts: hosts})
	return o
}

// shown returns the name of the Secret whose certificate is shown for a server name.
func shown(c Config, serverName string) string {
	if cert := NewRouter(c).Certificate(443, serverName); cert != nil {
		return cert.Secret.Name
	}
	return "own"
}

// TestCertificates: by SNI, exact names before wildcards; what is bad is named and hurts no other host.
func TestCertificates(t *testing.T) {
	t.Parallel()
	mixed := secret(t, "mixed", "m.example")
	mixed.Data[corev1.TLSPrivateKeyKey] = secret(t, "", "m.example").Data[corev1.TLSPrivateKeyKey]
	empty := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "empty"}}
	foreign := secret(t, "foreign", "f.example")
	foreign.Namespace = "other"
	in := Input{
		Secrets: []*corev1.Secret{secret(t, "a", "a.example"), secret(t, "wild", "*.example"), secret(t, "many", "x.many.example", "Y.many.example"),
			secret(t, "cn"), mixed, empty, foreign},
		Ingresses: []*networkingv1.Ingress{
			withTLS(ing("a", 1, "a.example / P s"), "a", "A.example"),
			withTLS(ing("wild", 2, "b.example / P s"), "wild", "*.example"),
			withTLS(ing("many", 3, "x.many.example / P s"), "many"),
			withTLS(ing("cn", 3, "cn.example / P s"), "cn", "cn.example"),
			withTLS(withTLS(ing("bad", 4, "m.example / P s"), "mixed", "m.bad.example"), "empty", "e.bad.example"),
			withTLS(withTLS(ing("gone", 4, "g.example / P s"), "gone", "g.bad.example"), "foreign", "f.bad.example"),
			withTLS(ing("late", 5, "a.example /late P s"), "wild", "a.example", "not..a.host"),
		},
	}
	out := Compile(in)
	wantProblems(t, out,
		"bad: spec.tls[0].secretName: Secret default/mixed: certificate and key do not work: tls: private key does not match public key",
		"bad: spec.tls[1].secretName: Secret default/empty: tls.crt is missing or empty",
		"gone: spec.tls[0].secretName: there is no Secret default/gone",
		"gone: spec.tls[1].secretName: there is no Secret default/foreign",
		"late: spec.tls[0]: host a.example has the certificate of Secret default/a by Ingress default/a, which is older",
		`late: spec.tls[0].hosts: "not..a.host" is no host`)
	for name, want := range map[string]string{
		"a.example": "a", "A.EXAMPLE.": "a", "b.example": "wild", "c.example": "wild", "x.c.example": "own", "example": "own",
		"x.many.example": "many", "y.many.example": "many", "z.many.example": "own", "cn.example": "cn",
		"m.bad.example": "own", "g.bad.example": "own", "": "own", "zzz": "own",
	} {
		if got := shown(out.Config, name); got != want {
			t.Errorf("%q is shown %s, want %s", name, got, want)
		}
	}
	// The younger object's certificate takes over when the older object goes.
	in.Ingresses = in.Ingresses[1:]
	if got := shown(Compile(in).Config, "a.example"); got != "wild" {
		t.Errorf("a.example is shown %s, want wild", got)
	}
}

func TestCertificateDoesNotCover(t *testing.T) {
	t.Parallel()
	out := Compile(Input{
		Secrets:   []*corev1.Secret{secret(t, "a", "a.example", "*.b.example")},
		Ingresses: []*networkingv1.Ingress{withTLS(ing("x", 1, "c.example / P s"), "a", "c.example", "x.b.example", "*.b.example")},
	})
	wantProblems(t, out, "x: spec.tls[0].secretName: the certificate of Secret default/a does not name c.example: clients will refuse it")
	if got := shown(out.Config, "c.example"); got != "a" {
		t.Errorf("c.example is shown %s, want a all the same", got)
	}
}

// TestRedirect: hosts with TLS redirect, whatever is wrong with the Secret, unless they are told not to.
func TestRedirect(t *testing.T) {
	t.Parallel()
	out := Compile(Input{Ingresses: []*networkingv1.Ingress{
		withTLS(ing("tls", 1, "tls.example / P s", "plain.example / P s"), "gone", "tls.example"),
		ing("same", 2, "tls.example /other P s"),
		with(ing("off", 2, "tls.example /off P s"), "ssl-redirect=false"),
		with(ing("force", 2, "force.example / P s"), "force-ssl-redirect=true"),
		withTLS(ing("wild", 2, "x.w.example / P s", "*.w.example / P s", "x.x.w.example / P s"), "gone", "*.w.example"),
		withTLS(ing("all", 2, "all.example / P s", "- / P s"), "gone"),
	}})
	got := map[string]bool{}
	for _, r := range out.Config.Ports[0].Listeners[0].Routes {
		host := "-"
		if len(r.Hosts) > 0 {
			host = r.Hosts[0].String()
		}
		got[host+r.Match.Path] = r.Settings.RedirectTLS
	}
	for name, want := range map[string]bool{
		"tls.example/": true, "tls.example/other": true, "tls.example/off": false, "plain.example/": false, "force.example/": true,
		"x.w.example/": true, "*.w.example/": true, "x.x.w.example/": false, "all.example/": true, "-/": true,
	} {
		if redirects, ok := got[name]; redirects != want || !ok {
			t.Errorf("%s redirects: %t, %t; want %t", name, redirects, ok, want)
		}
	}
}

// TestPairs: what is remembered of a Secret is as good as reading it, and goes with it.
func TestPairs(t *testing.T) {
	t.Parallel()
	bad := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bad"}}
	in := Input{
		Secrets:   []*corev1.Secret{secret(t, "a", "a.example"), bad},
		Ingresses: []*networkingv1.Ingress{withTLS(withTLS(ing("x", 1, "a.example / P s"), "a"), "bad")},
	}
	want := Compile(in)
	in.Pairs = &Pairs{}
	for range 2 {
		got := Compile(in)
		sameConfig(t, got.Config, want.Config)
		wantProblems(t, got, "x: spec.tls[1].secretName: Secret default/bad: tls.crt is missing or empty")
	}
	if len(in.Pairs.known) != 2 {
		t.Errorf("%d pairs are known, want 2", len(in.Pairs.known))
	}
	in.Pairs.known[bad] = pair{err: errors.New("as remembered")}
	wantProblems(t, Compile(in), "as remembered")
	in.Secrets[0] = secret(t, "a", "b.example")
	in.Secrets = in.Secrets[:1]
	if got := shown(Compile(in).Config, "b.example"); got != "a" || len(in.Pairs.known) != 1 {
		t.Errorf("after a change b.example is shown %s, %d pairs are known", got, len(in.Pairs.known))
	}
}
