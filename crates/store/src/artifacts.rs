//! A run's manifest: the files that it delivered, and what was left out.

use std::sync::LazyLock;

use sqlx::AssertSqlSafe;
use threadline_contract::{AccountId, Artifact, ArtifactPath, EmptyReason, Omitted, RunId, Sha256};

use threadline_db::Many;

use crate::{
    Lease, Result, Run, Store, StoreError, Tx, json, open::read, run::RunRow, sql, tx::on,
};

/// Rows that are held in memory at once.
const TOGETHER: usize = 8_192;

static ARTIFACT_ROWS: LazyLock<Many> = LazyLock::new(|| {
    Many::new(
        "insert into artifacts (run, ordinal, path, path_digest, size, sha256, content_type)",
        7,
    )
});

#[derive(sqlx::FromRow)]
struct ArtifactRow {
    path: String,
    size: i64,
    sha256: Vec<u8>,
    content_type: String,
}

impl TryFrom<ArtifactRow> for Artifact {
    type Error = StoreError;
    fn try_from(row: ArtifactRow) -> Result<Self> {
        Ok(Self {
            path: ArtifactPath::new(row.path)
                .map_err(|e| StoreError::corrupt("artifacts.path", e))?,
            size: u64::try_from(row.size).map_err(|e| StoreError::corrupt("artifacts.size", e))?,
            sha256: Sha256(
                row.sha256
                    .try_into()
                    .map_err(|_| StoreError::corrupt("artifacts.sha256", "wrong length"))?,
            ),
            content_type: row.content_type.into(),
        })
    }
}

fn path_digest(path: &ArtifactPath) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(path.as_str()).into()
}

impl Store {
    /// Records a run's files under its lease, in the place of whatever was recorded before, and
    /// marks them as collected. They come in the order of their paths, one by one: there may be more than
    /// memory should hold.
    pub async fn put_manifest(
        &self,
        lease: &Lease,
        artifacts: impl Iterator<Item = std::io::Result<Artifact>> + Send + 'static,
        omitted: &[Omitted],
        empty_reason: Option<EmptyReason>,
    ) -> Result<Run> {
        let lease = lease.clone();
        let omitted = json::to_text("omitted", omitted)?;
        let reason = empty_reason
            .map(|r| json::word("empty reason", &r))
            .transpose()?;
        self.transact_once(move |mut tx| {
            Box::pin(async move {
                let row: Option<RunRow> = on!(tx, |c| sqlx::query_as(sql::PUT_MANIFEST)
                    .bind(lease.run.as_str())
                    .bind(lease.epoch)
                    .bind(omitted.as_str())
                    .bind(reason.as_deref())
                    .fetch_optional(c)
                    .await)?;
                let run = Run::try_from(row.ok_or(StoreError::Stale)?)?;
                on!(tx, |c| sqlx::query(sql::DROP_ARTIFACTS)
                    .bind(lease.run.as_str())
                    .execute(c)
                    .await
                    .map(drop))?;
                insert(&mut tx, &lease.run, artifacts).await?;
                Ok(run)
            })
        })
        .await
    }

    /// A page of a run's files, in the order of their paths, after so many of them.
    pub async fn artifacts(
        &self,
        account: &AccountId,
        run: &RunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Artifact>> {
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let rows: Vec<ArtifactRow> = read!(self, |db| sqlx::query_as(sql::ARTIFACTS)
            .bind(account.as_str())
            .bind(run.as_str())
            .bind(after)
            .bind(i64::from(limit))
            .fetch_all(db)
            .await)?;
        if rows.is_empty() {
            // No files, or no such run?
            self.artifact_count(account, run).await?;
        }
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// How many files a run has.
    pub async fn artifact_count(&self, account: &AccountId, run: &RunId) -> Result<u64> {
        let count: i64 = read!(self, |db| sqlx::query_scalar(sql::ARTIFACT_COUNT)
            .bind(account.as_str())
            .bind(run.as_str())
            .fetch_one(db)
            .await)?;
        u64::try_from(count).map_err(|e| StoreError::corrupt("artifacts.ordinal", e))
    }

    /// One file of a run.
    pub async fn artifact(
        &self,
        account: &AccountId,
        run: &RunId,
        path: &ArtifactPath,
    ) -> Result<Artifact> {
        let digest = path_digest(path);
        let row: ArtifactRow = read!(self, |db| sqlx::query_as(sql::ARTIFACT)
            .bind(account.as_str())
            .bind(run.as_str())
            .bind(digest.as_slice())
            .bind(path.as_str())
            .fetch_one(db)
            .await)?;
        row.try_into()
    }
}

async fn insert(
    tx: &mut Tx<'_>,
    run: &RunId,
    mut artifacts: impl Iterator<Item = std::io::Result<Artifact>> + Send,
) -> Result<()> {
    let mut ordinal: i64 = 0;
    loop {
        let part: std::io::Result<Vec<Artifact>> = artifacts.by_ref().take(TOGETHER).collect();
        let part = part.map_err(|e| {
            StoreError::Invalid(format!("the manifest cannot be read to its end: {e}"))
        })?;
        if part.is_empty() {
            return Ok(());
        }
        insert_part(tx, run, &part, &mut ordinal).await?;
    }
}

async fn insert_part(
    tx: &mut Tx<'_>,
    run: &RunId,
    artifacts: &[Artifact],
    ordinal: &mut i64,
) -> Result<()> {
    let mut rest = artifacts;
    while let Some((chunk, statement)) = ARTIFACT_ROWS.next(&mut rest) {
        let mut sizes = Vec::with_capacity(chunk.len());
        for artifact in chunk {
            sizes.push(i64::try_from(artifact.size).map_err(|_| {
                StoreError::Invalid(format!("`{}` has an impossible size", artifact.path))
            })?);
        }
        on!(tx, |c| {
            let mut query = sqlx::query(AssertSqlSafe(statement));
            for ((artifact, size), ordinal) in chunk.iter().zip(sizes).zip(*ordinal + 1..) {
                query = query
                    .bind(run.as_str())
                    .bind(ordinal)
                    .bind(artifact.path.as_str())
                    .bind(path_digest(&artifact.path).to_vec())
                    .bind(size)
                    .bind(artifact.sha256.0.as_slice())
                    .bind(artifact.content_type.as_ref());
            }
            query.execute(c).await.map(drop)
        })
        .map_err(|e| match e {
            StoreError::Duplicate => {
                StoreError::Invalid("the manifest names a path twice".to_owned())
            }
            other => other,
        })?;
        *ordinal += i64::try_from(chunk.len()).unwrap_or(i64::MAX);
    }
    Ok(())
}
