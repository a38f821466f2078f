package manifest

import (
	"testing"

	"github.com/toyproxy/toyproxy/cluster"
)

func TestLocate(t *testing.T) {
	r := loadText(t, `# comment
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata:
    name: web
    labels:
      app.kubernetes.io/name: web
  spec:
    clusterIP: 10.96.0.7
    ports:
    - name: http
      port: 80
    - {name: https, port: 443}
`)
	web := cluster.MakeRef(cluster.Service, "default", "web")
	for _, tc := range []struct {
		ref   cluster.Ref
		field string
		want  string
	}{
		{web, "", "-:5:3"},
		{web, "metadata.name", "-:8:11"},
		{web, "metadata.labels", "-:9:5"},
		{web, "metadata.labels[app.kubernetes.io/name]", "-:10:31"},
		{web, "spec.ports", "-:13:5"},
		{web, "spec.ports[0]", "-:14:7"},
		{web, "spec.ports[0].port", "-:15:13"},
		{web, "spec.ports[1].port", "-:16:27"},
		// What the manifest does not set stands where it would be added.
		{web, "spec.ports[0].targetPort", "-:14:7"},
		{web, "spec.ports[7].port", "-:13:5"},
		{web, "spec.selector", "-:11:3"},
		{web, "status.loadBalancer.ingress[0].ip", "-:5:3"},
		{web, "spec.clusterIPs[0]", "-:12:16"},
		{web, "spec.ports[x", "-:13:5"},
		{web, "...", "-:5:3"},
		{cluster.MakeRef(cluster.Service, "default", "other"), "spec", ""},
	} {
		if got := r.Locate(tc.ref, tc.field).String(); got != tc.want {
			t.Errorf("Locate(%s, %q) = %s, want %s", tc.ref, tc.field, got, tc.want)
		}
	}
}
