<?php // uploads/index.php
