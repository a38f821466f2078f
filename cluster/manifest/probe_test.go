package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What an API server says of probes, hooks and init containers.
func TestChecksOfAContainersLife(t *testing.T) {
	for _, tc := range []struct{ name, container, want string }{
		{"good", "livenessProbe: {httpGet: {port: http, httpHeaders: [{name: Host, value: a}]}, terminationGracePeriodSeconds: 5}, lifecycle: {preStop: {sleep: {seconds: 5}}}", ""},
		{"good gRPC", "readinessProbe: {grpc: {port: 50051}, successThreshold: 3}, startupProbe: {exec: {command: [a]}}", ""},
		{"no handler", "livenessProbe: {periodSeconds: 3}", "livenessProbe: Required value: must specify a handler type"},
		{"two handlers", "livenessProbe: {exec: {command: [a]}, tcpSocket: {port: 1}}", "livenessProbe: Forbidden: may not specify more than 1 handler type"},
		{"no command", "livenessProbe: {exec: {}}", "livenessProbe.exec.command: Required value"},
		{"port", "readinessProbe: {tcpSocket: {port: 99999}}", "readinessProbe.tcpSocket.port: Invalid value: 99999: must be between 1 and 65535, inclusive"},
		{"port name", "readinessProbe: {httpGet: {port: not_a_port}}", `readinessProbe.httpGet.port: Invalid value: "not_a_port": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`},
		{"scheme", "readinessProbe: {httpGet: {port: 80, scheme: FTP}}", `readinessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"`},
		{"successes", "livenessProbe: {exec: {command: [a]}, successThreshold: 2}", "livenessProbe.successThreshold: Invalid value: 2: must be 1"},
		{"grace of readiness", "readinessProbe: {exec: {command: [a]}, terminationGracePeriodSeconds: 1}", "readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes"},
		{"negative", "startupProbe: {exec: {command: [a]}, initialDelaySeconds: -1}", "startupProbe.initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0"},
		{"sleep", "lifecycle: {postStart: {sleep: {seconds: 31}}}", "lifecycle.postStart.sleep.seconds: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)"},
		{"stop signal", "lifecycle: {stopSignal: SIGQUIT}", "lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"},
		{"restart policy", "restartPolicy: Sometimes", `restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"`},
		{"rules", "restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]", "restartPolicy: Required value: must specify restartPolicy when restart rules are used"},
	} {
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: c, image: c, " + tc.container + "}\n"
		checkProblem(t, tc.name, text, "spec.containers[0].", tc.want)
		if strings.Contains(tc.container, "Probe") && tc.want == "" {
			text = strings.Replace(text, "  containers:", "  containers: [{name: m, image: m}]\n  initContainers:", 1)
			sidecar := strings.Replace(text, "image: c,", "image: c, restartPolicy: Always,", 1)
			checkProblem(t, tc.name+" of a sidecar", sidecar, "", "")
			checkProblem(t, tc.name+" of an init container", text, "spec.initContainers[0].", "may not be set for init containers without restartPolicy=Always")
		}
	}
}

// checkProblem loads a text, of which the first error is to be this.
func checkProblem(t *testing.T, name, text, at, want string) {
	t.Helper()
	got := ""
	for _, p := range loadText(t, text).Problems {
		if !p.Warning && (got == "" || !strings.Contains(got, want)) {
			got = p.Field + ": " + p.Message
		}
	}
	if want == "" && got != "" || !strings.Contains(got, want) || !strings.HasPrefix(got, at) && want != "" {
		t.Errorf("%s: %s", name, cmp.Diff(at+want, got))
	}
}
