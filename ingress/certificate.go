package ingress

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// certificates finds the certificate of a listener by the name a client asks for.
type certificates struct {
	byHost hosts[named]
	// other is for clients that ask for no name, or one that no certificate has.
	other *Certificate
}

// named is a certificate by one of its names.
type named struct {
	*Certificate
	name Hostname
}

func newCertificates(l *Listener) certificates {
	var out certificates
	for i := range l.Certificates {
		c := &l.Certificates[i]
		names := c.Hosts
		if len(names) == 0 {
			names, _ = CertificateHosts(c.Cert)
		}
		for _, name := range names {
			out.byHost.at(name, func() named { return named{c, name} })
		}
	}
	if len(l.Certificates) > 0 && !l.SelfSigned {
		out.other = &l.Certificates[0]
	}
	return out
}

// Certificate returns the one to show to a client of a port that asks for a server
// name; nil: one that the proxy makes for itself. Of several that have the name, the
// most specific is shown.
func (r *Router) Certificate(port uint16, serverName string) *Certificate {
	host := NormalizeHost(serverName)
	var best, other *Certificate
	rank := -1
	for _, g := range r.ports[port] {
		g.byHost.covering(host, func(l *listener) bool {
			l.certs.byHost.covering(host, func(c named) bool {
				if at := c.name.rank(); at > rank {
					best, rank = c.Certificate, at
				}
				return false
			})
			if other == nil {
				other = l.certs.other
			}
			return false
		})
	}
	if best == nil {
		return other
	}
	return best
}

// CertificateHosts returns the names that a PEM certificate is for.
func CertificateHosts(text []byte) ([]Hostname, error) {
	leaf, err := parseLeaf(text)
	if err != nil {
		return nil, err
	}
	names := leaf.DNSNames
	if len(names) == 0 && len(leaf.IPAddresses) == 0 {
		names = []string{leaf.Subject.CommonName}
	}
	var hosts []Hostname
	for _, name := range names {
		if name = strings.ToLower(strings.TrimSuffix(name, ".")); name != "" {
			hosts = append(hosts, Hostname{Name: name})
		}
	}
	return hosts, nil
}

// CheckPair says what is wrong with a certificate and its key, both PEM.
func CheckPair(cert, key []byte) error {
	switch {
	case len(cert) == 0:
		return errors.New("tls.crt is missing or empty")
	case len(key) == 0:
		return errors.New("tls.key is missing or empty")
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return fmt.Errorf("certificate and key do not work: %w", err)
	}
	return nil
}

func parseLeaf(text []byte) (*x509.Certificate, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, errors.New("no certificate in the PEM text")
}
