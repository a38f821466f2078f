package manifest

import (
	"bytes"
	"fmt"
	"testing"
)

// big writes n Services with an EndpointSlice of ten endpoints each.
func big(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Service
metadata:
  name: svc-%[1]d
spec:
  selector:
    app: app-%[1]d
  ports:
  - name: http
    port: 80
    targetPort: 8080
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: svc-%[1]d-abc
  labels:
    kubernetes.io/service-name: svc-%[1]d
addressType: IPv4
ports:
- name: http
  port: 8080
endpoints:
`, i)
		for j := range 10 {
			fmt.Fprintf(&b, "- addresses: [10.%d.%d.%d]\n  conditions:\n    ready: true\n  nodeName: node-%d\n", 128+i*10>>16, (i*10+j)>>8&255, (i*10+j)&255, j)
		}
	}
	return b.Bytes()
}

func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			data := big(n)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := Load(b.Context(), Options{Paths: []string{"-"}, Stdin: bytes.NewReader(data)})
				if err != nil || len(r.Problems) > 0 || len(r.Objects.Services) != n {
					b.Fatal(err, r.Problems, len(r.Objects.Services))
				}
			}
		})
	}
}
