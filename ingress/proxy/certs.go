package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/toyproxy/toyproxy/ingress"
)

// keyring has the certificates of a Config, parsed. One that stays from Config to
// Config is not parsed again.
type keyring struct {
	parsed map[[sha256.Size]byte]*tls.Certificate
	// ofConfig finds them for the router's answers.
	ofConfig map[*ingress.Certificate]*tls.Certificate
}

func fingerprint(c *ingress.Certificate) [sha256.Size]byte {
	h := sha256.New()
	h.Write(c.Cert)
	h.Write([]byte{0})
	h.Write(c.Key)
	return [sha256.Size]byte(h.Sum(nil))
}

// with returns the keyring of another Config. The error names the Secrets that
// hold no certificate.
func (k keyring) with(c ingress.Config) (keyring, error) {
	next := keyring{map[[sha256.Size]byte]*tls.Certificate{}, map[*ingress.Certificate]*tls.Certificate{}}
	var faults []error
	for i := range c.Ports {
		for j := range c.Ports[i].Listeners {
			certs := c.Ports[i].Listeners[j].Certificates
			for n := range certs {
				faults = append(faults, next.add(&certs[n], k))
			}
		}
	}
	return next, errors.Join(faults...)
}

func (k keyring) add(c *ingress.Certificate, old keyring) error {
	id := fingerprint(c)
	pair := k.parsed[id]
	if pair == nil {
		pair = old.parsed[id]
	}
	if pair == nil {
		parsed, err := tls.X509KeyPair(c.Cert, c.Key)
		if err != nil {
			return fmt.Errorf("certificate of Secret %s: %w", c.Secret, err)
		}
		pair = &parsed
	}
	k.parsed[id] = pair
	k.ofConfig[c] = pair
	return nil
}

// selfSigned makes the certificate for names that no Secret has.
func selfSigned(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of the self-signed certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "toyproxy ingress: no certificate for this name", Organization: []string{"toyproxy"}},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(10, 0, 0),
		DNSNames:     []string{"ingress.local"},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("self-signed certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// tlsConfig is that of a port. Certificates are looked up at each handshake, so
// that a new one is shown from then on.
func (p *Proxy) tlsConfig(port uint16) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			w := p.world.Load()
			if pair := w.keys.ofConfig[w.router.Certificate(port, hello.ServerName)]; pair != nil {
				return pair, nil
			}
			return p.fallback, nil
		},
	}
}
