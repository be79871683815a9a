"""Manifests as people write them: every kind that makes pods, in several styles of YAML."""

from __future__ import annotations

DEPLOYMENT = """\
# Shop, by the team that sells.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop   # its name
spec:
  replicas: 3
  selector:
    matchLabels: {app: shop}
  template:
    metadata:
      labels: {app: shop}
    spec:
      containers:
        # The one that sells.
        - name: shop
          image: "shop:1"
          env:
            - {name: COLOUR, value: 'red'}
        - name: proxy
          image: proxy:2
"""
SERVICE = """\
apiVersion: v1
kind:   Service
metadata: { name:  shop }
spec: {selector: {app: shop}, ports: [{port: 80}]}
"""
STATEFUL = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: ledger}
spec:
  serviceName: ledger
  selector: {matchLabels: {app: ledger}}
  template:
    metadata: {labels: {app: ledger}}
    spec:
      securityContext: {fsGroup: 1000}
      initContainers:
      - name: migrate
        image: ledger:1
      containers:
      - name: ledger
        image: ledger:1
        volumeMounts:
        - {name: data, mountPath: /data}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
DAEMON = """\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: agent, image: agent:1}]}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: import}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: import, image: shop:1}
"""
CRON = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "17 2 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: OnFailure
          containers:
          - {name: nightly, image: shop:1}
"""
POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {containers: [{name: a, image: b}]}\n"
)
LIST = (
    "apiVersion: v1\nkind: List\nitems:\n- "
    + POD.replace("\n", "\n  ").rstrip()
    + "\n- "
    + (SERVICE.replace("\n", "\n  ").rstrip() + "\n")
)
JSON = """\
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j"},
 "spec": {"containers": [{"name": "a", "image": "b"}]}}
"""
MANIFESTS = {
    "deployment": DEPLOYMENT,
    "stateful": STATEFUL,
    "daemon": DAEMON,
    "job": JOB,
    "cron": CRON,
    "pod": POD,
    "list": LIST,
    "json": JSON,
    "several": f"{SERVICE}---\n{DEPLOYMENT}---\n# nothing\n---\n{JOB}",
    "divider first": f"---\n{CRON}---\n{SERVICE}",
}
